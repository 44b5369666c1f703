//! Payload functions run over small tables, for the tests beside them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::SparkError;
use crate::types::type_name;
use crate::{plan_query, session_context};

/// Bytes from hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// Hexadecimal digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A session with the table `t` of the one BINARY column `b`, in batches of so many rows.
pub(crate) fn session(payloads: &[Option<Vec<u8>>], rows: usize) -> SessionContext {
    let ctx = session_context("UTC", 1).expect("session");
    let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::Binary, true)]));
    let batch = |part: &[Option<Vec<u8>>]| {
        let column: BinaryArray = part.iter().map(|p| p.as_deref()).collect();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).expect("batch")
    };
    let batches = payloads.chunks(rows.max(1)).map(batch).collect();
    let table = MemTable::try_new(schema.clone(), vec![batches]).expect("table");
    ctx.register_table("t", Arc::new(table)).expect("table");
    ctx
}

/// The first column of a query: its type, and its values.
pub(crate) async fn column(ctx: &SessionContext, sql: &str) -> Result<(DataType, ArrayRef)> {
    let plan = plan_query(ctx, sql).await?;
    let t = plan.schema().field(0).data_type().clone();
    let batches = ctx.execute_logical_plan(plan).await?.collect().await?;
    let parts: Vec<_> = batches.iter().map(|b| b.column(0).as_ref()).collect();
    let values = match parts.is_empty() {
        true => arrow::array::new_empty_array(&t),
        false => arrow::compute::concat(&parts)?,
    };
    Ok((t, values))
}

/// `call` over the payloads as JSON, with the name of its type.
pub(crate) async fn as_json(
    payloads: &[Option<Vec<u8>>],
    call: &str,
) -> Result<(String, Vec<Option<String>>)> {
    let ctx = session(payloads, 1024);
    let (t, values) = column(&ctx, &format!("SELECT {call} AS v FROM t")).await?;
    let wrapped = format!("SELECT to_json(array({call})) AS v FROM t");
    let (_, texts) = column(&ctx, &wrapped).await?;
    let text = |i: usize| {
        let text = texts.as_string::<i32>().value(i);
        let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        (!values.is_null(i) && t != DataType::Null).then(|| inside.unwrap_or(text).to_owned())
    };
    Ok((type_name(&t), (0..values.len()).map(text).collect()))
}

/// The condition and message of the error that a query ends in.
pub(crate) async fn error(payloads: &[Option<Vec<u8>>], call: &str) -> (String, String) {
    let ctx = session(payloads, 1024);
    match column(&ctx, &format!("SELECT {call} AS v FROM t")).await {
        Ok((_, values)) => panic!("{call} gave {values:?}"),
        Err(e) => match SparkError::find(&e) {
            Some(found) => (found.condition.to_owned(), found.message.clone()),
            None => (String::new(), e.to_string()),
        },
    }
}
