//! Inside a larger actor system: an actor feeds a query, an actor gets its output, an actor watches it. The query lives in the
//! system that is there; when the query ends, the system goes on.

use std::sync::Arc;

use actix::prelude::*;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use weir::connectors::actor::{EpochDelivery, FeedActor, RecipientSink, SendBatch, channel};
use weir::prelude::*;
use weir::runtime::RecipientListener;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(
        "celsius",
        DataType::Int64,
        true,
    )]))
}

/// Gets committed epochs and adds them up.
#[derive(Default)]
struct Alarm {
    readings: Vec<i64>,
}

impl Actor for Alarm {
    type Context = Context<Self>;
}

impl Handler<EpochDelivery> for Alarm {
    type Result = Result<()>;

    fn handle(&mut self, delivery: EpochDelivery, _: &mut Self::Context) -> Result<()> {
        for batch in &delivery.batches {
            self.readings
                .extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
        println!("epoch {}: {:?} so far", delivery.epoch, self.readings);
        Ok(())
    }
}

#[derive(Message)]
#[rtype(result = "Vec<i64>")]
struct Readings;

impl Handler<Readings> for Alarm {
    type Result = MessageResult<Readings>;

    fn handle(&mut self, _: Readings, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.readings.clone())
    }
}

/// Watches queries.
struct Watcher;

impl Actor for Watcher {
    type Context = Context<Self>;
}

impl Handler<QueryEvent> for Watcher {
    type Result = ();

    fn handle(&mut self, event: QueryEvent, _: &mut Self::Context) {
        match event {
            QueryEvent::Started { id, .. } => println!("query {id} started"),
            QueryEvent::Progress(progress) => println!(
                "epoch {} took {} row(s)",
                progress.batch_id, progress.num_input_rows
            ),
            QueryEvent::Idle { .. } => println!("nothing to do"),
            QueryEvent::Terminated { exception, .. } => println!("ended: {exception:?}"),
        }
    }
}

#[actix::main]
async fn main() -> Result<()> {
    let alarm = Alarm::default().start();
    let (handle, source) = channel(schema(), 10_000);
    let feed = FeedActor::new(handle).start();

    let session = Session::new()?;
    session
        .streams()
        .add_listener(RecipientListener(Watcher.start().recipient()));
    let query = session
        .read_stream()
        .source(source)?
        .filter("celsius > 30")?
        .write_stream()
        .option("checkpointLocation", "memory://alarm")
        .sink(Arc::new(RecipientSink::new(alarm.clone().recipient())))
        .start()
        .await?;

    for readings in [vec![12, 31, 29], vec![40, 8], vec![35]] {
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(readings))])?;
        feed.send(SendBatch(batch))
            .await
            .map_err(|error| WeirError::external(error.to_string()))??;
        query.process_all_available().await?;
    }
    query.stop().await;

    let readings = alarm
        .send(Readings)
        .await
        .map_err(|error| WeirError::external(error.to_string()))?;
    assert_eq!(
        readings,
        [31, 40, 35],
        "the alarm actor got every hot reading once and is still alive"
    );
    Ok(())
}
