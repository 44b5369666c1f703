//! What becomes of files that were read.

use super::{Reading, files_below};

#[tokio::test]
async fn p063_archived_files_keep_their_paths_and_deleted_ones_are_gone() {
    let archive = crate::support::Home::new();
    let reading = Reading::new("json", "id BIGINT")
        .option("cleanSource", "archive")
        .option("sourceArchiveDir", archive.text("old"))
        .option("maxFilesPerTrigger", 1);
    for (name, id) in [
        ("k=x/data.jsonl", 1),
        ("k=y/data.jsonl", 2),
        ("k=y/a b[1]%#é.jsonl", 3),
    ] {
        reading.put(name, format!("{{\"id\":{id}}}\n"));
    }
    let source = reading.home.path("in");
    let rows: Vec<String> = reading
        .read()
        .await
        .iter()
        .map(|row| row[..1].to_owned())
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(files_below(&source).is_empty());
    let kept = archive.path("old").join(source.strip_prefix("/").unwrap());
    assert_eq!(
        files_below(&kept),
        ["k=x/data.jsonl", "k=y/a b[1]%#é.jsonl", "k=y/data.jsonl"]
    );
    assert_eq!(
        std::fs::read_to_string(kept.join("k=y/data.jsonl")).unwrap(),
        "{\"id\":2}\n"
    );

    // The same name once more: what is in the archive is not replaced, and the file is read.
    reading.put("k=x/data.jsonl", "{\"id\":9}\n{\"id\":10}\n");
    let again = Reading {
        home: reading.home,
        ..Reading::new("json", "id BIGINT")
    }
    .option("cleanSource", "archive")
    .option("sourceArchiveDir", archive.text("old"))
    .option("allowOverwrites", true);
    assert_eq!(again.read().await, ["10|x", "9|x"]);
    assert_eq!(
        std::fs::read_to_string(kept.join("k=x/data.jsonl")).unwrap(),
        "{\"id\":1}\n"
    );
    assert_eq!(files_below(&source), ["k=x/data.jsonl"]);

    let deleting = Reading::new("json", "id BIGINT").option("cleanSource", "delete");
    deleting.put("a.json", "{\"id\":1}\n");
    assert_eq!(deleting.read().await, ["1"]);
    assert!(files_below(&deleting.home.path("in")).is_empty());
}

#[tokio::test]
async fn p063_files_of_an_epoch_that_is_not_committed_stay() {
    let reading = Reading::new("json", "id BIGINT")
        .option("cleanSource", "delete")
        .option("mode", "FAILFAST");
    reading.put("a.json", "{\"id\":1}\n");
    reading.put("b.json", "broken\n");
    reading.failure().await;
    assert_eq!(files_below(&reading.home.path("in")), ["a.json", "b.json"]);
    reading.put("b.json", "{\"id\":2}\n");
    // The file is not the one that was planned.
    let error = reading.failure().await.to_string();
    assert!(
        error.contains("b.json") && error.contains("changed"),
        "{error}"
    );
    assert_eq!(files_below(&reading.home.path("in")), ["a.json", "b.json"]);
}
