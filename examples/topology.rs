//! A dataflow written by hand: what the planner makes of a DataFrame can be written in code, with operators of your own.
//!
//! Here an operator keeps a running total per account in its state; the state survives the restart in the middle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use weir::connectors::foreach::ForeachSink;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;
use weir::runtime::Epoch;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("account", DataType::Utf8, true),
        Field::new("amount", DataType::Int64, true),
    ]))
}

fn payments(rows: &[(&str, i64)]) -> Result<RecordBatch> {
    let accounts = StringArray::from_iter_values(rows.iter().map(|(account, _)| account));
    let amounts = Int64Array::from_iter_values(rows.iter().map(|(_, amount)| *amount));
    Ok(RecordBatch::try_new(
        schema(),
        vec![Arc::new(accounts), Arc::new(amounts)],
    )?)
}

/// Balance per account; emits the new balance of every account an epoch touched.
#[derive(Default)]
struct Balances {
    balances: BTreeMap<String, i64>,
    touched: BTreeMap<String, i64>,
}

impl Operator for Balances {
    fn process(&mut self, _: usize, rows: Rows, _: &OperatorContext, _: &mut Outbox) -> Result<()> {
        let accounts = rows.batch().column(0).as_string::<i32>();
        let amounts = rows.batch().column(1).as_primitive::<Int64Type>();
        for (account, amount) in accounts.iter().zip(amounts) {
            let (Some(account), Some(amount)) = (account, amount) else {
                continue;
            };
            let balance = self.balances.entry(account.to_owned()).or_default();
            *balance = balance
                .checked_add(amount)
                .ok_or_else(|| WeirError::data(format!("the balance of '{account}' overflows")))?;
            self.touched.insert(account.to_owned(), *balance);
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, _: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let touched = std::mem::take(&mut self.touched);
        let rows: Vec<(&str, i64)> = touched
            .iter()
            .map(|(account, balance)| (account.as_str(), *balance))
            .collect();
        out.emit(Rows::inserts(payments(&rows)?));
        Ok(())
    }

    fn snapshot(&mut self, _: Epoch) -> Result<Option<Vec<u8>>> {
        let bytes = serde_json::to_vec(&self.balances);
        bytes
            .map(Some)
            .map_err(|error| WeirError::internal("balances cannot be written").with_source(error))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        let balances = serde_json::from_slice(snapshot);
        self.balances = balances.map_err(|error| {
            WeirError::internal("no balances in the snapshot").with_source(error)
        })?;
        Ok(())
    }
}

fn topology(stream: &MemoryStream, seen: &Arc<Mutex<Vec<String>>>) -> Result<Topology> {
    let mut builder = Topology::builder();
    builder.output_mode(OutputMode::Update);
    let payments = builder.source("payments", stream.source());
    let spec = OperatorSpec::new("balances", |_| Ok(Balances::default()))
        .stateful()
        .with_param("key", "account");
    let balances = builder.operator("balances", [payments.key_by(["account"])], spec);
    let seen = Arc::clone(seen);
    let print = ForeachSink::rows(move |row| {
        let text = format!(
            "{}: {}",
            row.str("account")?.unwrap_or_default(),
            row.i64("amount")?.unwrap_or_default()
        );
        println!("  {text}");
        seen.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(text);
        Ok(())
    });
    builder.sink("print", balances, Arc::new(print));
    builder.build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stream = MemoryStream::new(schema());
    let config = QueryConfig {
        checkpoint: Some("memory://balances".to_owned()),
        trigger: Trigger::AvailableNow,
        parallelism: 2,
        ..QueryConfig::default()
    };
    println!("{}", topology(&stream, &seen)?.explain());

    for rows in [
        &[("ann", 10), ("bob", 5), ("ann", 1)][..],
        &[("ann", 100)][..],
    ] {
        stream.add(payments(rows)?)?;
        println!("a new run:");
        let query =
            weir::runtime::StreamingQuery::start(topology(&stream, &seen)?, config.clone()).await?;
        query.await_termination().await?;
    }
    let seen = seen
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    assert_eq!(
        seen.last().map(String::as_str),
        Some("ann: 111"),
        "the second run went on from the first one's state"
    );
    Ok(())
}
