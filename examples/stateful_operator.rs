//! An operator with state of your own types and timers: per user a count of clicks, and an alarm when a user was silent for 30 seconds
//! of event time. The state is keyed, durable with each epoch, and moves with the keys when the parallelism changes.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimestampMicrosecondType};
use weir::connectors::foreach::ForeachSink;
use weir::connectors::memory::MemoryStream;
use weir::operators::{RowCodec, watermark};
use weir::prelude::*;
use weir::runtime::{OperatorState, key_group};
use weir::state::typed::{Timers, ValueState};

const SILENCE_US: i64 = 30_000_000;

/// What is known of a user: number of clicks and time of the last.
type Clicks = (i64, i64);

struct Silence {
    key: RowCodec,
    state: OperatorState,
}

fn output() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("user", DataType::Utf8, true),
        Field::new("clicks", DataType::Int64, true),
    ]))
}

impl Silence {
    fn spec() -> OperatorSpec {
        let tables = vec![
            ValueState::<Clicks>::spec("clicks", 1),
            Timers::spec("silence", 1),
        ];
        let made = tables.clone();
        OperatorSpec::new("silence", move |_| {
            Ok(Silence {
                key: RowCodec::new(vec![Field::new("user", DataType::Utf8, true)])?,
                state: OperatorState::in_memory(&made),
            })
        })
        .with_schema(output())
        .with_tables(tables)
        .with_watermark_epochs()
        .with_param("key", "user")
        .with_param("silenceUs", SILENCE_US.to_string())
    }
}

impl Operator for Silence {
    fn open(&mut self, state: OperatorState, _: &OperatorContext) -> Result<()> {
        self.state = state;
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        Some(&mut self.state)
    }

    fn process(&mut self, _: usize, rows: Rows, _: &OperatorContext, _: &mut Outbox) -> Result<()> {
        let times = rows
            .batch()
            .column(0)
            .as_primitive::<TimestampMicrosecondType>();
        let users = self
            .key
            .encode(&rows.batch().columns()[1..2], rows.num_rows())?;
        for (row, time) in times.values().iter().enumerate() {
            let (user, group) = (users.get(row), key_group(users.get(row)));
            let mut clicks = ValueState::<Clicks>::on(self.state.table(0));
            let (count, last) = clicks.get(group, user)?.unwrap_or((0, i64::MIN));
            clicks.set(group, user, &(count + 1, last.max(*time)))?;
            Timers::on(self.state.table(1)).set(group, time + SILENCE_US, user);
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let now = context.watermark_ms.saturating_mul(1000);
        let mut due = Vec::new();
        Timers::on(self.state.table(1)).fire(now, &mut |timer| {
            due.push((timer.group, timer.time, timer.key.to_vec()));
            Ok(())
        })?;
        let (mut users, mut counts) = (Vec::new(), Vec::new());
        for (group, time, user) in due {
            let mut clicks = ValueState::<Clicks>::on(self.state.table(0));
            if let Some((count, last)) = clicks.get(group, &user)?
                && last + SILENCE_US == time
            {
                clicks.clear(group, &user)?;
                users.push(user);
                counts.push(count);
            }
        }
        let mut columns = self.key.decode(users.iter().map(Vec::as_slice))?;
        columns.push(Arc::new(Int64Array::from(counts)));
        out.emit(Rows::inserts(RecordBatch::try_new(output(), columns)?));
        Ok(())
    }
}

fn topology(stream: &MemoryStream, alarms: &Arc<Mutex<Vec<String>>>) -> Result<Topology> {
    let mut builder = Topology::builder();
    let clicks = builder.source("clicks", stream.source());
    let timed = builder.operator("watermark", [clicks], watermark("ts", 0));
    let silent = builder.operator("silence", [timed.key_by(["user"])], Silence::spec());
    let alarms = Arc::clone(alarms);
    let print = ForeachSink::rows(move |row| {
        let user = row.str("user")?.unwrap_or_default().to_owned();
        println!(
            "  {user} is silent after {} clicks",
            row.i64("clicks")?.unwrap_or_default()
        );
        alarms
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(user);
        Ok(())
    });
    builder.sink("alarms", silent, Arc::new(print));
    builder.build()
}

fn clicks(rows: &[(i64, &str)]) -> Vec<ArrayRef> {
    let times = rows.iter().map(|(second, _)| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let users = StringArray::from_iter_values(rows.iter().map(|(_, user)| *user));
    vec![Arc::new(times), Arc::new(users)]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let alarms = Arc::new(Mutex::new(Vec::new()));
    let stream = MemoryStream::new(weir::types::parse_schema("ts TIMESTAMP, user STRING")?);
    // Each run goes on from the state of the one before, with another number of subtasks.
    for (parallelism, rows) in [
        (2, &[(1, "ann"), (2, "bob"), (5, "ann")][..]),
        (3, &[(20, "bob")][..]),
        (1, &[(36, "cid")][..]),
    ] {
        println!("a run with {parallelism} subtasks:");
        stream.add_columns(clicks(rows))?;
        let config = QueryConfig {
            checkpoint: Some("memory://silence".to_owned()),
            trigger: Trigger::AvailableNow,
            parallelism,
            ..QueryConfig::default()
        };
        let query =
            weir::runtime::StreamingQuery::start(topology(&stream, &alarms)?, config).await?;
        query.await_termination().await?;
    }
    let alarms = alarms.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*alarms, ["ann"], "bob clicked again at 20 s");
    Ok(())
}
