//! What operators see of epochs, watermarks and origins, and where their rows go.

use std::sync::Mutex;

use arrow::array::{AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use weir_state::ManualClock;

use super::*;
use crate::facts::Facts;

fn rows(values: &[i64]) -> Rows {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let column = Arc::new(Int64Array::from(values.to_vec()));
    Rows::inserts(RecordBatch::try_new(schema, vec![column]).expect("batch"))
}

fn batch(epoch: u64, split: u32) -> EpochBatch {
    EpochBatch {
        epoch: Epoch(epoch),
        origin: Origin {
            split,
            ..Origin::default()
        },
        rows: rows(&[1]),
    }
}

/// (call, watermark, late watermark, split of the origin, planned time)
type Calls = Arc<Mutex<Vec<(String, i64, i64, u32, i64)>>>;

/// Writes down what it is called with; passes rows on and emits one more row at the end of an epoch.
struct Probe(Calls);

impl Probe {
    fn note(&self, call: &str, context: &OperatorContext) {
        self.0.lock().expect("calls").push((
            format!("{}:{call}", context.uid),
            context.watermark_ms,
            context.late_watermark_ms,
            context.origin.split,
            context.batch_timestamp_ms,
        ));
    }
}

impl Operator for Probe {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        self.note("rows", context);
        out.emit_late(rows.clone());
        out.emit(rows);
        Ok(())
    }

    fn on_watermark(&mut self, context: &OperatorContext, _: &mut Outbox) -> Result<()> {
        self.note("watermark", context);
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        self.note("end", context);
        out.emit(rows(&[9]));
        Ok(())
    }
}

fn chain(uids: &[&str], calls: &Calls, late_watermark_ms: i64) -> (Chain, Arc<OpenFacts>) {
    let facts = Arc::new(OpenFacts::default());
    let env = ChainEnv {
        facts: Arc::clone(&facts),
        clock: Arc::new(ManualClock::new(0)),
        late_watermark_ms,
        times_by_split: false,
    };
    let specs: Vec<_> = uids
        .iter()
        .map(|uid| {
            let calls = Arc::clone(calls);
            let spec = OperatorSpec::new("probe", move |_| Ok(Probe(Arc::clone(&calls))));
            ((*uid).to_owned(), spec)
        })
        .collect();
    (Chain::create(&specs, 0, 1, env).expect("chain"), facts)
}

fn open(facts: &OpenFacts, epoch: u64) {
    facts.set(Facts {
        epoch: Epoch(epoch),
        batch_timestamp_ms: 100 + epoch as i64,
        max_event_time_ms: i64::MAX,
    });
}

fn taken(calls: &Calls) -> Vec<(String, i64, i64, u32, i64)> {
    std::mem::take(&mut *calls.lock().expect("calls"))
}

fn call(
    name: &str,
    watermark: i64,
    late: i64,
    split: u32,
    time: i64,
) -> (String, i64, i64, u32, i64) {
    (name.to_owned(), watermark, late, split, time)
}

#[test]
fn rows_are_judged_by_the_watermark_of_the_epoch_before_also_those_of_earlier_links_at_its_end() {
    let calls = Calls::default();
    let (mut chain, facts) = chain(&["a", "b"], &calls, 0);
    let mut out = Emitted::new();
    open(&facts, 0);
    chain.process(0, batch(0, 7), &mut out).expect("rows");
    chain.close(Epoch(0), Some(50), &mut out).expect("end");
    let end = u32::MAX;
    assert_eq!(
        taken(&calls),
        [
            call("a:rows", i64::MIN, 0, 7, 100),
            call("b:rows", i64::MIN, 0, 7, 100),
            call("a:watermark", 50, 0, end, 100),
            call("b:watermark", 50, 0, end, 100),
            call("a:end", 50, 0, end, 100),
            call("b:rows", 50, 0, end, 100),
            call("b:end", 50, 0, end, 100),
        ]
    );
    open(&facts, 1);
    chain.process(0, batch(1, 2), &mut out).expect("rows");
    chain.close(Epoch(1), None, &mut out).expect("end");
    assert_eq!(
        taken(&calls),
        [
            call("a:rows", 50, 50, 2, 101),
            call("b:rows", 50, 50, 2, 101),
            call("a:end", 50, 50, end, 101),
            call("b:rows", 50, 50, end, 101),
            call("b:end", 50, 50, end, 101),
        ]
    );
}

#[test]
fn rows_keep_their_origin_and_rows_of_an_epochs_end_come_after_all_splits() {
    let (mut chain, facts) = chain(&["a"], &Calls::default(), 0);
    let mut out = Emitted::new();
    open(&facts, 0);
    chain.process(0, batch(0, 7), &mut out).expect("rows");
    chain.close(Epoch(0), Some(0), &mut out).expect("end");
    let splits: Vec<_> = out
        .iter()
        .map(|(port, batch)| (*port, batch.origin.split))
        .collect();
    assert_eq!(splits, [(Port::Main, 7), (Port::Main, u32::MAX)]);
}

#[test]
fn late_rows_leave_by_their_own_port_only_if_somebody_reads_them() {
    let (mut chain, facts) = chain(&["a", "b"], &Calls::default(), 0);
    chain.read_late(1);
    let mut out = Emitted::new();
    open(&facts, 0);
    chain.process(0, batch(0, 7), &mut out).expect("rows");
    let ports: Vec<_> = out.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [Port::Late(1), Port::Main]);
}

#[test]
fn rows_of_an_epoch_that_is_not_open_are_refused() {
    let (mut chain, facts) = chain(&["a"], &Calls::default(), 0);
    open(&facts, 1);
    let error = chain.process(0, batch(0, 0), &mut Emitted::new());
    assert!(error.is_err());
}

/// Fails on a 13, also in a batch with other numbers; reports every 4 as malformed.
struct Picky;

impl Operator for Picky {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        _: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let numbers = rows.batch().column(0).as_primitive::<Int64Type>().values();
        if numbers.contains(&13) {
            return Err(WeirError::data("thirteen"));
        }
        crate::report_malformed(numbers.iter().filter(|number| **number == 4).count());
        out.emit(rows);
        Ok(())
    }
}

/// Leaves the odd rows out, counted from 0.
struct EvenRows;

impl Operator for EvenRows {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        _: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let even: BooleanArray = (0..rows.num_rows()).map(|row| Some(row % 2 == 0)).collect();
        out.emit(rows.filter(&even)?);
        Ok(())
    }
}

fn picky(before: Vec<OperatorSpec>) -> Chain {
    let facts = Arc::new(OpenFacts::default());
    open(&facts, 0);
    let env = ChainEnv {
        facts,
        clock: Arc::new(ManualClock::new(0)),
        late_watermark_ms: 0,
        times_by_split: false,
    };
    let picky = OperatorSpec::new("picky", |_| Ok(Picky));
    let specs: Vec<_> = (0..)
        .zip(before.into_iter().chain([picky]))
        .map(|(at, spec)| (format!("{}-{at}", spec.kind), spec))
        .collect();
    Chain::create(&specs, 0, 1, env).expect("chain")
}

fn of(numbers: &[i64], source: u32) -> EpochBatch {
    EpochBatch {
        epoch: Epoch(0),
        origin: Origin {
            source,
            ..Origin::default()
        },
        rows: rows(numbers),
    }
}

fn culprit(chain: &mut Chain, numbers: &[i64]) -> Option<usize> {
    let batch = of(numbers, 0);
    let error = chain.process(0, batch.clone(), &mut Emitted::new());
    chain.culprit(&batch, &error.expect_err("a thirteen"))
}

#[test]
fn the_row_an_error_is_about_is_found_wherever_it_stands() {
    let mut chain = picky(vec![]);
    for length in 1..20_usize {
        for at in 0..length {
            let mut numbers = vec![1; length];
            numbers[at] = 13;
            assert_eq!(culprit(&mut chain, &numbers), Some(at));
            numbers[length - 1] = 13;
            assert_eq!(culprit(&mut chain, &numbers), Some(at), "the first of two");
        }
    }
}

#[test]
fn the_row_an_error_is_about_is_not_guessed_where_others_decide_what_is_read() {
    // Which rows are left out depends on the rows before: no single row fails as the batch did.
    let even = OperatorSpec::new("even", |_| Ok(EvenRows));
    let mut chain = picky(vec![even]);
    assert_eq!(culprit(&mut chain, &[1, 1, 13, 1]), Some(2));
    let stateful = OperatorSpec::new("even", |_| Ok(EvenRows)).stateful();
    let mut chain = picky(vec![stateful]);
    assert_eq!(culprit(&mut chain, &[13]), None, "it has state");
}

#[test]
fn values_that_cannot_be_read_are_counted_by_the_source_of_their_rows_and_by_operator() {
    let mut chain = picky(vec![]);
    for (numbers, source) in [(&[4, 1, 4][..], 0), (&[1], 1), (&[4], 2), (&[4], 0)] {
        let processed = chain.process(0, of(numbers, source), &mut Emitted::new());
        processed.expect("no thirteen");
    }
    assert_eq!(chain.take_malformed(), [(0, 3), (2, 1)].into());
    assert_eq!(chain.take_malformed(), BTreeMap::new());
    let (_, metrics) = &chain.metrics()[0];
    assert_eq!(metrics.snapshot().malformed, 4);
}
