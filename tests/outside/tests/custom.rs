//! The user's source, operator and sink run with the guarantees of the engine's own: limited epochs, state over restarts, and the
//! same output whatever place the run crashes at.

use std::path::Path;
use std::sync::Arc;

use outside::{FilePerEpoch, Highest, Sensors};
use weir_runtime::{FailPoints, OperatorSpec, OutputMode, QueryConfig, Result, StreamingQuery, Topology, Trigger};

fn topology(directory: &Path) -> Result<Topology> {
    let mut builder = Topology::builder();
    builder.output_mode(OutputMode::Update);
    let sensors = builder.source("sensors", Sensors { total: 600, per_epoch: 200 });
    let highest = OperatorSpec::new("highest", |_| Ok(Highest::default())).stateful();
    let highest = builder.operator("highest", [sensors.key_by(["sensor"])], highest);
    builder.sink("files", highest, Arc::new(FilePerEpoch { directory: directory.to_owned() }));
    builder.build()
}

async fn run(home: &Path, failpoints: FailPoints) -> Result<u64> {
    let (out, checkpoint) = (home.join("out"), home.join("checkpoint"));
    std::fs::create_dir_all(&out).expect("a directory for the output");
    let failpoints = Arc::new(failpoints);
    let config = QueryConfig {
        checkpoint: Some(checkpoint.to_string_lossy().into_owned()),
        trigger: Trigger::AvailableNow,
        parallelism: 2,
        failpoints: Arc::clone(&failpoints),
        ..QueryConfig::default()
    };
    StreamingQuery::start(topology(&out)?, config).await?.await_termination().await?;
    Ok(failpoints.hits())
}

fn output(home: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(home.join("out"))
        .expect("the output directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), std::fs::read_to_string(&path).expect("text")))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn users_parts_give_the_same_output_whatever_place_the_run_crashes_at() {
    let undisturbed = tempfile::tempdir().expect("a directory");
    let places = run(undisturbed.path(), FailPoints::recording()).await.expect("ends well");
    let expected = output(undisturbed.path());
    assert_eq!(expected.len(), 3);
    for place in (0..places).step_by(3) {
        let home = tempfile::tempdir().expect("a directory");
        let _crashed = run(home.path(), FailPoints::crash_at(place)).await.is_err();
        run(home.path(), FailPoints::default()).await.expect("recovers");
        assert_eq!(output(home.path()), expected, "crash at place {place}");
    }
}
