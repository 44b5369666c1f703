//! Files: what one costs, whatever is in it; what a directory costs whose files are all known; what Parquet costs beside its library.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use weir::prelude::*;

use crate::queries::BIDS;
use crate::usage::{Usage, io, now};
use crate::{Arguments, fresh, rows_of, session};

/// Rows of the many and of the few files.
const ROWS: u64 = 1_000_000;
/// How many files they are.
const FEW: u64 = 8;
/// Files of the directories that are only looked at.
const KNOWN: [u64; 3] = [1_000, 10_000, 100_000];
/// Looks at such a directory that are measured.
const LOOKS: u64 = 100;
/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(50);
/// Files added, one after the other, to a directory of known ones.
const ADDED: u64 = 20;

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    parquet_to_nothing(arguments).await?;
    small_files(arguments).await?;
    for known in KNOWN {
        known_files(arguments, known).await?;
    }
    Ok(())
}

fn told(name: &str, more: Value) {
    let mut told = json!({"engine": "weir", "query": "files", "measure": name});
    crate::add(&mut told, more);
    println!("{told}");
}

/// Rows of the files below `input`, read to the end by one query into nothing.
async fn drain(arguments: &Arguments, frame: &DataFrame) -> Result<Usage> {
    let checkpoint = fresh(&arguments.work, "checkpoint")?;
    let before = Usage::now()?;
    let query = frame
        .write_stream()
        .format("noop")
        .option("checkpointLocation", &checkpoint)
        .trigger(Trigger::AvailableNow)
        .start()
        .await?;
    query.await_termination().await?;
    Ok(Usage::now()?.since(&before))
}

/// Every column of the bids in Parquet, beside a loop over the files with the library's reader.
async fn parquet_to_nothing(arguments: &Arguments) -> Result<()> {
    let input = arguments.data.join("bids_parquet");
    let rows = rows_of(&arguments.data)? as f64;
    let before = Usage::now()?;
    let mut read = 0;
    for path in files_of(&input)? {
        let file = std::fs::File::open(&path).map_err(io)?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(8192).build())
            .map_err(|error| WeirError::external(error.to_string()))?;
        for batch in reader {
            read += batch?.num_rows();
        }
    }
    let library = Usage::now()?.since(&before);
    let frame = session(arguments)?
        .read_stream()
        .schema(BIDS)
        .option("maxFilesPerTrigger", arguments.files)
        .parquet(&input.display().to_string())?;
    let weir = drain(arguments, &frame).await?;
    told(
        "parquet to nothing",
        json!({"rows": read, "library_rows_per_cpu_s": rows / library.cpu_seconds(), "rows_per_cpu_s": rows / weir.cpu_seconds(),
               "rows_per_s": rows / weir.seconds(), "ratio": library.cpu_seconds() / weir.cpu_seconds()}),
    );
    Ok(())
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).map_err(io)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()
        .map_err(io)?;
    paths.retain(|path| path.extension().is_some_and(|is| is == "parquet"));
    paths.sort();
    Ok(paths)
}

/// The same rows in many files and in few.
async fn small_files(arguments: &Arguments) -> Result<()> {
    let mut used = Vec::new();
    for count in [FEW, arguments.count] {
        let input = fresh(&arguments.work, "in")?;
        for file in 0..count {
            let mut text = String::new();
            for row in (file * ROWS / count)..((file + 1) * ROWS / count) {
                writeln!(text, r#"{{"id":{row},"name":"n{}"}}"#, row % 1000)
                    .map_err(|error| WeirError::internal(error.to_string()))?;
            }
            std::fs::write(format!("{input}/{file:06}.json"), text).map_err(io)?;
        }
        let frame = session(arguments)?
            .read_stream()
            .schema("id BIGINT, name STRING")
            .json(&input)?;
        used.push((count, drain(arguments, &frame).await?));
    }
    let [(_, few), (count, many)] = &used[..] else {
        return Err(WeirError::internal("two runs"));
    };
    let per_file = (many.cpu_seconds() - few.cpu_seconds()) / *count as f64;
    told(
        "small files",
        json!({"rows": ROWS, "files": count, "rows_per_s": ROWS as f64 / many.seconds(), "rows_per_cpu_s": ROWS as f64 / many.cpu_seconds(),
               "of_few_files_rows_per_cpu_s": ROWS as f64 / few.cpu_seconds(), "cpu_us_per_file": per_file * 1e6}),
    );
    Ok(())
}

/// A query whose directory holds known files: an idle trigger, and the time until a new file is committed.
async fn known_files(arguments: &Arguments, known: u64) -> Result<()> {
    let input = fresh(&arguments.work, "in")?;
    for file in 0..known {
        std::fs::write(format!("{input}/{file:06}.txt"), "x\n").map_err(io)?;
    }
    let session = session(arguments)?;
    let checkpoint = fresh(&arguments.work, "checkpoint")?;
    let (sender, mut committed) = tokio::sync::mpsc::unbounded_channel();
    session.streams().add_listener(move |event: &QueryEvent| {
        if let QueryEvent::Progress(progress) = event {
            let _stopped = sender.send(progress.num_input_rows).is_err();
        }
    });
    let query = session
        .read_stream()
        .option("maxFilesPerTrigger", 10_000)
        .text(&input)?
        .write_stream()
        .format("noop")
        .option("checkpointLocation", &checkpoint)
        .trigger(Trigger::ProcessingTime(PERIOD))
        .start()
        .await?;
    let ended = || WeirError::internal("the query ended");
    let mut rows = 0;
    while rows < known {
        rows += committed.recv().await.ok_or_else(ended)?;
    }
    // Directories that were written to just now are looked at more closely.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = Usage::now()?;
    tokio::time::sleep(PERIOD * LOOKS as u32).await;
    let idle = Usage::now()?.since(&before);
    let mut times = Vec::new();
    for file in 0..ADDED {
        let since = now();
        std::fs::write(format!("{input}/new-{file}.txt"), "x\n").map_err(io)?;
        while committed.recv().await.ok_or_else(ended)? == 0 {}
        times.push(since.elapsed().as_secs_f64() * 1000.0);
    }
    query.stop().await;
    times.sort_unstable_by(f64::total_cmp);
    told(
        "known files",
        json!({"files": known, "idle_cpu_ms_per_trigger": idle.cpu_seconds() * 1000.0 / LOOKS as f64,
               "new_file_median_ms": times[times.len() / 2], "new_file_max_ms": times[times.len() - 1]}),
    );
    Ok(())
}
