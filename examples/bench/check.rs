//! Whether a stream's answer is the batch answer: the same files, and one bid far in the future that closes every window.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use weir::prelude::*;

use crate::Arguments;
use crate::queries::{BIDS, Bench};
use crate::sink::Checksums;
use crate::usage::io;

/// 2100-01-01, in microseconds since 1970.
const FAR: i64 = 4_102_444_800_000_000;

/// Links the files of the data into `directory` and adds the last bid, which is younger than all of them. Query a has no windows.
pub(crate) fn input(arguments: &Arguments, bench: Bench, directory: &str) -> Result<PathBuf> {
    let from = arguments.data.join(bench.directory());
    let to = PathBuf::from(directory);
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(&from).map_err(io)? {
        let entry = entry.map_err(io)?;
        newest = newest.max(
            entry
                .metadata()
                .and_then(|known| known.modified())
                .map_err(io)?,
        );
        let link = to.join(entry.file_name());
        std::fs::hard_link(entry.path(), &link)
            .or_else(|_| std::fs::copy(entry.path(), &link).map(drop))
            .map_err(io)?;
    }
    if bench != Bench::A {
        let last = to.join("zz-last.parquet");
        write(&last, &last_bid()?)?;
        let file = File::options().write(true).open(&last).map_err(io)?;
        file.set_modified(newest + Duration::from_secs(10))
            .map_err(io)?;
    }
    Ok(to)
}

fn last_bid() -> Result<RecordBatch> {
    let number = || Arc::new(Int64Array::from(vec![0])) as ArrayRef;
    let text = || Arc::new(StringArray::from(vec![""])) as ArrayRef;
    let time = TimestampMicrosecondArray::from(vec![FAR]).with_timezone("UTC");
    Ok(RecordBatch::try_from_iter([
        ("bid_id", number()),
        ("auction", number()),
        ("bidder", number()),
        ("price", number()),
        ("channel", text()),
        ("url", text()),
        ("date_time", Arc::new(time) as ArrayRef),
        ("extra", text()),
    ])?)
}

fn write(path: &Path, batch: &RecordBatch) -> Result<()> {
    let file = File::create(path).map_err(io)?;
    let external = |error: parquet::errors::ParquetError| WeirError::external(error.to_string());
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).map_err(external)?;
    writer.write(batch).map_err(external)?;
    writer.close().map_err(external)?;
    Ok(())
}

/// The batch answer over the files of `input` beside what the sink saw. The last bid's own window is open for ever in append mode, so
/// it is no part of the answer there; deduplication emits at once.
pub(crate) async fn compare(
    bench: Bench,
    session: &Session,
    input: &Path,
    seen: &Checksums,
) -> Result<Value> {
    let path = input.display().to_string();
    let bids = match bench {
        Bench::A => session.read().schema(BIDS).json(&path).await?,
        _ => session.read().parquet(&path).await?,
    };
    let bids = match bench {
        Bench::B | Bench::G | Bench::H => {
            bids.filter("date_time < TIMESTAMP '2099-01-01 00:00:00'")?
        }
        _ => bids,
    };
    bids.create_or_replace_temp_view("bids")?;
    let answer = session.sql(bench.in_batch()).await?.collect().await?;
    let number = |column: usize| {
        let batch = answer.iter().find(|batch| batch.num_rows() == 1)?;
        let integers =
            arrow::compute::cast(batch.column(column), &arrow::datatypes::DataType::Int64);
        Some(integers.ok()?.as_primitive::<Int64Type>().value(0))
    };
    let expected: Vec<i64> = (0..3).map(|column| number(column).unwrap_or(-1)).collect();
    let (rows, sums) = seen.total();
    let found = [rows as i64, sums[0] as i64, sums[1] as i64];
    Ok(json!({"batch": expected, "stream": found, "agree": expected == found}))
}
