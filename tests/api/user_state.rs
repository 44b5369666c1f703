//! An operator of a user with every table there is: value, map, list and timers. Whatever happens between its epochs, what it tells is
//! what a plain program tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use weir::connectors::foreach::ForeachSink;
use weir::connectors::memory::MemoryStream;
use weir::operators::RowCodec;
use weir::prelude::*;
use weir::runtime::{OperatorState, key_group};
use weir::state::typed::{ListState, MapState, Timers, ValueState};

use crate::support::Home;

/// Rows of (key, value).
type Pairs = [(&'static str, i64)];

/// What comes in each epoch.
const EPOCHS: [&Pairs; 5] = [
    &[("a", 3), ("b", 1), ("a", 3), ("c", 9)],
    &[("b", 7), ("a", 2)],
    &[("d", 4), ("a", 3)],
    &[("c", 9), ("c", 1), ("b", 1)],
    &[("a", 11)],
];
/// Timers up to so much more fire with each epoch.
const STEP: i64 = 3;

/// Per key: how many values, how often each, all in order; a timer at each value, which takes its key's list away.
struct Everything {
    key: RowCodec,
    state: OperatorState,
    touched: BTreeSet<Vec<u8>>,
}

fn output() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("told", DataType::Utf8, false)]))
}

impl Everything {
    fn spec() -> OperatorSpec {
        let tables = vec![
            ValueState::<u64>::spec("count", 1),
            MapState::<i64, u64>::spec("seen", 1),
            ListState::<i64>::spec("list", 1),
            Timers::spec("due", 1),
        ];
        let made = tables.clone();
        OperatorSpec::new("everything", move |_| {
            Ok(Everything {
                key: RowCodec::new(vec![Field::new("k", DataType::Utf8, true)])?,
                state: OperatorState::in_memory(&made),
                touched: BTreeSet::new(),
            })
        })
        .with_schema(output())
        .with_tables(tables)
        .with_param("key", "k")
    }

    fn name(&self, key: &[u8]) -> Result<String> {
        let columns = self.key.decode([key])?;
        Ok(columns[0].as_string::<i32>().value(0).to_owned())
    }
}

impl Operator for Everything {
    fn open(&mut self, state: OperatorState, _: &OperatorContext) -> Result<()> {
        self.state = state;
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        Some(&mut self.state)
    }

    fn process(&mut self, _: usize, rows: Rows, _: &OperatorContext, _: &mut Outbox) -> Result<()> {
        let keys = self
            .key
            .encode(&rows.batch().columns()[..1], rows.num_rows())?;
        let values = rows.batch().column(1).as_primitive::<Int64Type>();
        for (row, value) in values.values().iter().enumerate() {
            let (key, group) = (keys.get(row), key_group(keys.get(row)));
            let mut count = ValueState::<u64>::on(self.state.table(0));
            let so_far = count.get(group, key)?.unwrap_or_default();
            count.set(group, key, &(so_far + 1))?;
            let mut seen = MapState::<i64, u64>::on(self.state.table(1));
            let so_far = seen.get(group, key, value)?.unwrap_or_default();
            seen.put(group, key, value, &(so_far + 1))?;
            ListState::<i64>::on(self.state.table(2)).push(group, key, value)?;
            Timers::on(self.state.table(3)).set(group, *value, key);
            self.touched.insert(key.to_vec());
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let mut told = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let group = key_group(&key);
            let count = ValueState::<u64>::on(self.state.table(0)).get(group, &key)?;
            let mut seen = MapState::<i64, u64>::on(self.state.table(1)).entries(group, &key)?;
            seen.sort_unstable();
            let list = ListState::<i64>::on(self.state.table(2)).all(group, &key)?;
            told.push(line(
                &self.name(&key)?,
                count.unwrap_or_default(),
                &seen,
                &list,
            ));
        }
        let mut fired = Vec::new();
        let now = STEP * (context.epoch.0 as i64 + 1);
        Timers::on(self.state.table(3)).fire(now, &mut |timer| {
            fired.push((timer.time, timer.group, timer.key.to_vec()));
            Ok(())
        })?;
        for (time, group, key) in fired {
            ListState::<i64>::on(self.state.table(2)).clear(group, &key)?;
            told.push(format!("{} is due at {time}", self.name(&key)?));
        }
        let column: ArrayRef = Arc::new(StringArray::from(told));
        out.emit(Rows::inserts(RecordBatch::try_new(output(), vec![column])?));
        Ok(())
    }
}

fn line(key: &str, count: u64, seen: &[(i64, u64)], list: &[i64]) -> String {
    format!("{key} {count} {seen:?} {list:?}")
}

/// The same without tables, subtasks or a checkpoint.
fn expected() -> Vec<Vec<String>> {
    let mut seen: BTreeMap<&str, BTreeMap<i64, u64>> = BTreeMap::new();
    let mut lists: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut timers: BTreeSet<(i64, &str)> = BTreeSet::new();
    let mut all = Vec::new();
    for (epoch, rows) in (1..).zip(EPOCHS) {
        for (k, v) in rows {
            *seen.entry(*k).or_default().entry(*v).or_default() += 1;
            lists.entry(*k).or_default().push(*v);
            timers.insert((*v, *k));
        }
        let touched: BTreeSet<&str> = rows.iter().map(|(k, _)| *k).collect();
        let mut told: Vec<String> = touched
            .into_iter()
            .map(|k| {
                let of_key: Vec<(i64, u64)> = seen[k].iter().map(|(v, n)| (*v, *n)).collect();
                line(k, of_key.iter().map(|(_, n)| n).sum(), &of_key, &lists[k])
            })
            .collect();
        let later = timers.split_off(&(STEP * epoch + 1, ""));
        for (time, k) in std::mem::replace(&mut timers, later) {
            lists.insert(k, Vec::new());
            told.push(format!("{k} is due at {time}"));
        }
        told.sort();
        all.push(told);
    }
    all
}

fn topology(stream: &MemoryStream, told: &Arc<Mutex<Vec<String>>>) -> Topology {
    let mut builder = Topology::builder();
    let rows = builder.source("rows", stream.source());
    let everything = builder.operator("everything", [rows.key_by(["k"])], Everything::spec());
    let told = Arc::clone(told);
    let sink = ForeachSink::rows(move |row| {
        let text = row.str("told")?.unwrap_or_default().to_owned();
        told.lock().unwrap().push(text);
        Ok(())
    });
    builder.sink("told", everything, Arc::new(sink));
    builder.build().unwrap()
}

/// What each epoch tells, sorted; before epoch `n` the query is started anew with `subtasks(n)` subtasks, if it says so.
async fn told(subtasks: impl Fn(usize) -> Option<usize>, memory_budget: usize) -> Vec<Vec<String>> {
    let home = Home::new();
    let stream = MemoryStream::new(weir::types::parse_schema("k STRING, v BIGINT").unwrap());
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut query: Option<weir::runtime::StreamingQuery> = None;
    let mut all = Vec::new();
    for (epoch, rows) in EPOCHS.iter().enumerate() {
        if let Some(parallelism) = subtasks(epoch) {
            if let Some(query) = query.take() {
                query.stop().await;
            }
            let mut config = QueryConfig {
                checkpoint: Some(home.text("checkpoint")),
                parallelism,
                ..QueryConfig::default()
            };
            config.state.memory_budget = memory_budget;
            let topology = topology(&stream, &told);
            let started = weir::runtime::StreamingQuery::start(topology, config).await;
            query = Some(started.unwrap());
        }
        let keys = StringArray::from_iter_values(rows.iter().map(|(k, _)| *k));
        let values = Int64Array::from_iter_values(rows.iter().map(|(_, v)| *v));
        stream
            .add_columns(vec![Arc::new(keys), Arc::new(values)])
            .unwrap();
        query
            .as_ref()
            .unwrap()
            .process_all_available()
            .await
            .unwrap();
        let mut of_epoch = std::mem::take(&mut *told.lock().unwrap());
        of_epoch.sort();
        all.push(of_epoch);
    }
    query.unwrap().stop().await;
    all
}

#[tokio::test]
async fn every_table_of_an_operator_survives_restarts_and_moves_with_its_keys() {
    let expected = expected();
    let once = |epoch: usize| (epoch == 0).then_some(2);
    assert_eq!(told(once, 1 << 30).await, expected, "one run");
    let again = |_| Some(2);
    assert_eq!(told(again, 1 << 30).await, expected, "restarted");
    let moved = |epoch: usize| Some(epoch % 3 + 1);
    assert_eq!(told(moved, 1 << 30).await, expected, "other subtasks");
    assert_eq!(told(moved, 64).await, expected, "in files");
}
