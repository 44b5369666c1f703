//! From a writer to a running query.

use std::sync::Arc;

use weir_runtime::{ObjectStoreSettings, QueryConfig, Result, Topology, WeirError};

use super::sinks::{Made, Wanted};
use super::{DataStreamWriter, checkpoint, progress_bar};
use crate::plan::{Options, is_streaming, plan_stream, unsupported};
use crate::session::{NEW_AGGREGATES, PROGRESS_BAR};
use crate::streams::{Plans, StreamingQuery};

pub(super) async fn start(mut writer: DataStreamWriter) -> Result<StreamingQuery> {
    if let Some(problem) = writer.problem.take() {
        return Err(problem);
    }
    let frame = writer.frame.clone();
    let (session, plan) = (frame.session(), frame.plan());
    if !is_streaming(plan) {
        unsupported::check_subqueries(plan)?;
        let message = "write_stream can be used with streams only: this frame is bounded";
        return Err(WeirError::plan(message).with_condition("WRITE_STREAM_NOT_ALLOWED"));
    }
    if let Some(name) = writer.options.take("queryName") {
        writer.name = Some(name);
    }
    let location = checkpoint::location(session, &mut writer.options, writer.name.as_deref())?;
    let object_stores = session.settings().take_object_stores(&mut writer.options)?;
    let starting = session.streams().claim(
        writer.name.clone(),
        location.as_deref().map(checkpoint::normal),
    )?;
    let made = together(
        unsupported::check(plan, writer.mode),
        made(&writer, &object_stores),
    )?;
    let options = Options {
        mode: writer.mode,
        allow_new_aggregates: session.settings().is_on(NEW_AGGREGATES),
    };
    let topology = plan_stream(session.context(), plan, made.sink, options)?;
    let config = config(&writer, location, object_stores);
    let plans = plans(&frame.explain(), &topology);
    let handle = weir_runtime::StreamingQuery::start(topology, config).await?;
    let query = StreamingQuery::new(handle, plans);
    starting.started(&query);
    if let Some((name, table)) = made.table {
        session.add_table(&name, table)?;
    }
    if writer.trigger.is_bounded() && session.settings().is_on(PROGRESS_BAR) {
        progress_bar::show(&query);
    }
    Ok(query.owning(session.clone()))
}

/// The second result, or everything that is wrong with both: whoever mends the first problem should not meet the next one then.
pub(super) fn together<T>(first: Result<()>, second: Result<T>) -> Result<T> {
    match (first, second) {
        (Err(first), Err(second)) => {
            let texts = format!("{}; {}", first.message(), second.message());
            let both = WeirError::new(first.fault(), texts);
            Err(match first.condition().or(second.condition()) {
                Some(condition) => both.with_condition(condition),
                None => both,
            })
        }
        (first, second) => first.and(second),
    }
}

fn made(writer: &DataStreamWriter, object_stores: &ObjectStoreSettings) -> Result<Made> {
    let frame = &writer.frame;
    if let Some(sink) = &writer.sink {
        let unused = writer
            .options
            .texts()
            .keys()
            .next()
            .cloned()
            .or_else(|| writer.format.clone());
        return match unused {
            Some(unused) => Err(WeirError::config(format!(
                "'{unused}' has no meaning for {}, a sink made in code",
                sink.description()
            ))),
            None => Ok(Made::from(Arc::clone(sink))),
        };
    }
    check_clustering(writer)?;
    let wanted = Wanted {
        session: frame.session(),
        format: writer.format.as_deref(),
        partition_by: &writer.partition_by,
        name: writer.name.as_deref(),
        mode: writer.mode,
        columns: frame.schema(),
        object_stores,
    };
    wanted.made(writer.options.clone())
}

/// Refuses columns to cluster by that are none, and those beside partition columns.
fn check_clustering(writer: &DataStreamWriter) -> Result<()> {
    if writer.cluster_by.is_empty() {
        return Ok(());
    }
    if !writer.partition_by.is_empty() {
        let message = "cluster_by and partition_by exclude each other: give one of them";
        return Err(WeirError::plan(message)
            .with_condition("SPECIFY_CLUSTER_BY_WITH_PARTITIONED_BY_IS_NOT_ALLOWED"));
    }
    let schema = writer.frame.schema();
    let is_known = |name: &String| {
        let mut fields = schema.fields().iter();
        fields.any(|field| field.name().eq_ignore_ascii_case(name))
    };
    match writer.cluster_by.iter().find(|name| !is_known(name)) {
        Some(name) => {
            let fields = schema.fields().iter();
            let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
            Err(WeirError::plan(format!(
                "cluster_by names column '{name}', the rows have {}",
                names.join(", ")
            ))
            .with_condition("COLUMN_NOT_DEFINED_IN_TABLE"))
        }
        None => Ok(()),
    }
}

fn config(
    writer: &DataStreamWriter,
    location: Option<String>,
    object_stores: ObjectStoreSettings,
) -> QueryConfig {
    let session = writer.frame.session();
    let own = session.settings().query_config();
    let engine = writer.config.clone();
    let mut config = match engine {
        Some(engine) => QueryConfig {
            watermark: own.watermark,
            no_data_epochs: own.no_data_epochs,
            min_epochs_to_retain: own.min_epochs_to_retain,
            polling_delay: own.polling_delay,
            no_data_progress_interval: own.no_data_progress_interval,
            recent_progress: own.recent_progress,
            frozen: own.frozen,
            ..engine
        },
        None => QueryConfig {
            parallelism: session.parallelism(),
            ..own
        },
    };
    config.name.clone_from(&writer.name);
    config.trigger = writer.trigger;
    config.checkpoint = location;
    config.object_stores = object_stores.or(&config.object_stores);
    config.listeners.push(session.streams().fan_out());
    config
}

fn plans(logical: &str, topology: &Topology) -> Plans {
    Plans {
        logical: logical.to_owned(),
        topology: topology.explain(),
        mermaid: topology.to_mermaid(),
        dot: topology.to_dot(),
    }
}
