//! Top-N over rows and over changes: what is emitted, what is kept.

use arrow::array::{AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use weir_runtime::Epoch;

use super::*;
use crate::expression::Expression;
use crate::expression::testing::context;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn spec(change: impl FnOnce(&mut TopN)) -> TopN {
    let mut spec = TopN {
        partition: vec![0],
        order: vec![SortKey {
            expression: Expression::column("v", 1),
            descending: true,
            nulls_first: false,
        }],
        rows: 2,
        columns: 2,
        number: "rn".to_owned(),
        retracts: false,
        by_number: true,
        before: true,
        definition: ("k".to_owned(), "v desc".to_owned()),
    };
    change(&mut spec);
    spec
}

struct Run {
    operator: Box<dyn Operator>,
    context: OperatorContext,
}

impl Run {
    fn of(top_n: TopN) -> Self {
        let spec = super::top_n(top_n, &schema()).expect("spec");
        let context = context();
        let mut operator = spec.create(&context).expect("create");
        let table = Shape::new(self::spec(|_| ()), &schema())
            .expect("shape")
            .table();
        operator
            .open(OperatorState::in_memory(&[table]), &context)
            .expect("open");
        Self { operator, context }
    }

    /// Runs an epoch over rows of (kind, k, v); what comes out as `+U a 5 #1`.
    fn epoch(&mut self, rows: &[(RowKind, &str, i64)]) -> Vec<String> {
        self.try_epoch(rows).expect("epoch")
    }

    fn try_epoch(&mut self, rows: &[(RowKind, &str, i64)]) -> Result<Vec<String>> {
        let keys = StringArray::from_iter_values(rows.iter().map(|(_, k, _)| *k));
        let values: Int64Array = rows.iter().map(|(.., v)| *v).collect();
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)])?;
        let kinds = rows
            .iter()
            .map(|(kind, ..)| *kind as u8)
            .collect::<Vec<_>>();
        let rows = Rows::with_kinds(batch, UInt8Array::from(kinds))?;
        let mut out = Outbox::default();
        self.operator.process(0, rows, &self.context, &mut out)?;
        self.operator.on_epoch_end(&self.context, &mut out)?;
        self.context.epoch = Epoch(self.context.epoch.0 + 1);
        Ok(out.take().iter().flat_map(texts).collect())
    }

    fn kept(&mut self) -> u64 {
        self.operator.state().expect("state").stats().rows
    }
}

fn texts(rows: &Rows) -> Vec<String> {
    let batch = rows.batch();
    let (keys, values) = (
        batch.column(0).as_string::<i32>(),
        batch.column(1).as_primitive::<Int64Type>(),
    );
    let numbers = batch
        .column(2)
        .as_primitive::<arrow::datatypes::UInt64Type>();
    let text = |row| {
        let kind = match rows.kind(row) {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        };
        let (k, v, n) = (keys.value(row), values.value(row), numbers.value(row));
        format!("{kind} {k} {v} #{n}")
    };
    (0..rows.num_rows()).map(text).collect()
}

const ADD: RowKind = RowKind::Insert;
const TAKE: RowKind = RowKind::Delete;

#[test]
fn top_n_tells_what_changed_at_each_number() {
    let mut run = Run::of(spec(|_| ()));
    let first = run.epoch(&[(ADD, "a", 1), (ADD, "b", 7), (ADD, "a", 5), (ADD, "a", 3)]);
    assert_eq!(first, ["+I a 5 #1", "+I a 3 #2", "+I b 7 #1"]);
    assert!(run.epoch(&[(ADD, "a", 2)]).is_empty());
    let second = run.epoch(&[(ADD, "a", 9), (ADD, "b", 1)]);
    assert_eq!(
        second,
        [
            "-U a 5 #1",
            "+U a 9 #1",
            "-U a 3 #2",
            "+U a 5 #2",
            "+I b 1 #2"
        ]
    );
}

#[test]
fn top_n_of_rows_keeps_only_the_first_of_each_partition() {
    let mut run = Run::of(spec(|_| ()));
    let rows: Vec<_> = (0..100).map(|v| (ADD, "a", v)).collect();
    run.epoch(&rows);
    run.epoch(&[(ADD, "a", 500), (ADD, "b", 0)]);
    assert_eq!(run.kept(), 3);
}

#[test]
fn top_n_of_rows_with_equal_keys_keeps_those_that_came_first() {
    let mut run = Run::of(spec(|top_n| top_n.rows = 1));
    assert_eq!(run.epoch(&[(ADD, "a", 5)]), ["+I a 5 #1"]);
    assert!(run.epoch(&[(ADD, "a", 5), (ADD, "a", 5)]).is_empty());
}

#[test]
fn top_n_without_old_rows_tells_new_ones_only() {
    let mut run = Run::of(spec(|top_n| top_n.before = false));
    run.epoch(&[(ADD, "a", 5)]);
    assert_eq!(run.epoch(&[(ADD, "a", 9)]), ["+U a 9 #1", "+I a 5 #2"]);
}

#[test]
fn top_n_by_row_tells_which_rows_came_in_and_fell_out() {
    let mut run = Run::of(spec(|top_n| top_n.by_number = false));
    run.epoch(&[(ADD, "a", 5), (ADD, "a", 3)]);
    assert_eq!(run.epoch(&[(ADD, "a", 9)]), ["-D a 3 #2", "+I a 9 #1"]);
}

#[test]
fn top_n_of_changes_lets_rows_move_up_when_others_go() {
    let mut run = Run::of(spec(|top_n| top_n.retracts = true));
    run.epoch(&[(ADD, "a", 1), (ADD, "a", 2), (ADD, "a", 3)]);
    assert_eq!(run.kept(), 3);
    assert_eq!(
        run.epoch(&[(TAKE, "a", 3)]),
        ["-U a 3 #1", "+U a 2 #1", "-U a 2 #2", "+U a 1 #2"]
    );
    assert_eq!(run.epoch(&[(TAKE, "a", 1)]), ["-D a 1 #2"]);
    assert_eq!(
        run.epoch(&[
            (RowKind::UpdateBefore, "a", 2),
            (RowKind::UpdateAfter, "a", 8)
        ]),
        ["-U a 2 #1", "+U a 8 #1"]
    );
}

#[test]
fn top_n_of_changes_counts_equal_rows() {
    let mut run = Run::of(spec(|top_n| top_n.retracts = true));
    let two = run.epoch(&[(ADD, "a", 4), (ADD, "a", 4), (ADD, "a", 4)]);
    assert_eq!(two, ["+I a 4 #1", "+I a 4 #2"]);
    assert!(run.epoch(&[(TAKE, "a", 4)]).is_empty());
    assert_eq!(run.epoch(&[(TAKE, "a", 4)]), ["-D a 4 #2"]);
    assert!(run.try_epoch(&[(TAKE, "a", 77)]).is_err());
}

/// A row that comes, or one of those that are there that goes.
type Step = (bool, usize, i64);

/// The first two values of each key, with their numbers where those are told.
fn expected(there: &[(&str, i64)], numbered: bool) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (k, v) in there {
        groups.entry(k).or_default().push(*v);
    }
    let mut rows = Vec::new();
    for (k, mut values) in groups {
        values.sort_unstable_by(|a, b| b.cmp(a));
        for (n, v) in (1..).zip(values.into_iter().take(2)) {
            rows.push(match numbered {
                true => format!("{k} {v} #{n}"),
                false => format!("{k} {v}"),
            });
        }
    }
    rows.sort();
    rows
}

/// The rows that are told as of now.
fn follow(told: &mut Vec<String>, texts: &[String], numbered: bool) {
    for text in texts {
        let (kind, row) = text.split_at(3);
        let row = match numbered {
            true => row,
            false => row.split(" #").next().unwrap_or_default(),
        };
        match kind.starts_with('+') {
            true => told.push(row.to_owned()),
            false => {
                let at = told.iter().position(|told| told == row);
                told.remove(at.expect("a row that was told"));
            }
        }
    }
    told.sort();
}

proptest! {
    #[test]
    fn top_n_is_that_of_the_rows_that_are_there_however_they_are_cut_into_epochs(
        epochs in proptest::collection::vec(
            proptest::collection::vec((any::<bool>(), 0..12_usize, -3..4_i64), 0..8), 1..12,
        ),
        retracts: bool,
        numbered: bool,
    ) {
        let make = || Run::of(spec(|top_n| (top_n.retracts, top_n.by_number) = (retracts, numbered)));
        let change = |there: &mut Vec<(&'static str, i64)>, (goes, index, v): &Step| match there.len() {
            some if *goes && retracts && some > 0 => {
                let (k, v) = there.swap_remove(index % some);
                (TAKE, k, v)
            }
            _ => {
                let k = ["a", "b", "c"][index % 3];
                there.push((k, *v));
                (ADD, k, *v)
            }
        };
        let mut run = make();
        let (mut there, mut told) = (Vec::new(), Vec::new());
        for steps in &epochs {
            let rows: Vec<_> = steps.iter().map(|step| change(&mut there, step)).collect();
            follow(&mut told, &run.epoch(&rows), numbered);
            prop_assert_eq!(&told, &expected(&there, numbered));
        }
        let (mut there, mut at_once) = (Vec::new(), Vec::new());
        let rows: Vec<_> = epochs.concat().iter().map(|step| change(&mut there, step)).collect();
        follow(&mut at_once, &make().epoch(&rows), numbered);
        prop_assert_eq!(at_once, told);
    }
}
