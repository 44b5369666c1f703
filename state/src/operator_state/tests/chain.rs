//! Which files a commit writes, and what a restored state continues.

use super::*;

async fn names(location: &CheckpointLocation) -> Vec<String> {
    let files = location.list("state/agg/0").await.expect("list");
    files.into_iter().map(|file| file.name).collect()
}

#[tokio::test]
async fn commit_without_changes_names_the_same_file_again() {
    let location = memory();
    let mut state =
        OperatorState::create(config(&location, 0, 1), &[keyed()], 0..4096).expect("create");
    assert_eq!(state.commit(Epoch(0)).await.expect("commit"), None);
    set(state.table(0), b"a", b"1");
    let first = state
        .commit(Epoch(1))
        .await
        .expect("commit")
        .expect("a file");
    assert_eq!(first.file, "state/agg/0/1.1");
    assert_eq!(
        (first.since, first.groups),
        (Some(Epoch(1)), Some((0, 4096)))
    );
    // Touching, reading, and setting what is there already changes nothing.
    set(state.table(0), b"a", b"1");
    state.table(0).touch(0, 0, b"b");
    let again = state
        .commit(Epoch(2))
        .await
        .expect("commit")
        .expect("a file");
    assert_eq!(again, first);
    assert_eq!(state.stats().written_bytes, 0);
    assert_eq!(names(&location).await, ["1.1"]);
}

#[tokio::test]
async fn commit_after_many_small_files_writes_everything_once() {
    let location = memory();
    let mut config = config(&location, 0, 1);
    config.max_chain = 4;
    let mut state = OperatorState::create(config.clone(), &[keyed()], 0..4096).expect("create");
    let mut since = Vec::new();
    let mut last = None;
    for epoch in 0..12 {
        set(state.table(0), &[epoch as u8], b"x");
        last = state.commit(Epoch(epoch)).await.expect("commit");
        since.push(last.as_ref().and_then(|l| l.since).expect("since").0);
    }
    assert_eq!(since, [0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10]);
    for epoch in 0..10 {
        location
            .delete(&format!("state/agg/0/{epoch}.1"))
            .await
            .expect("delete");
    }
    config.generation = 2;
    let mut restored = OperatorState::restore(config, &[keyed()], 0..4096, &[last.expect("file")])
        .await
        .expect("restore");
    assert_eq!(entries(restored.table(0)).len(), 12);
}

#[tokio::test]
async fn restored_state_continues_the_chain_without_writing_everything() {
    let location = memory();
    let specs = [keyed()];
    let mut state =
        OperatorState::create(config(&location, 0, 1), &specs, 0..4096).expect("create");
    for key in 0..1000_u32 {
        set(state.table(0), &key.to_be_bytes(), &[7; 20]);
    }
    let first = state
        .commit(Epoch(0))
        .await
        .expect("commit")
        .expect("a file");
    let mut state = OperatorState::restore(
        config(&location, 0, 2),
        &specs,
        0..4096,
        std::slice::from_ref(&first),
    )
    .await
    .expect("restore");
    assert_eq!(state.commit(Epoch(1)).await.expect("commit"), Some(first));
    set(state.table(0), b"new", b"1");
    let second = state
        .commit(Epoch(2))
        .await
        .expect("commit")
        .expect("a file");
    assert!(second.bytes < 400, "{second:?}");
    assert_eq!(second.since, Some(Epoch(0)));
    let mut state = OperatorState::restore(config(&location, 0, 3), &specs, 0..4096, &[second])
        .await
        .expect("restore");
    assert_eq!(entries(state.table(0)).len(), 1001);
}

#[tokio::test]
async fn state_of_another_parallelism_is_named_by_every_new_subtask_at_once() {
    let location = memory();
    let specs = [keyed()];
    let mut state = OperatorState::create(config(&location, 0, 1), &specs, 0..64).expect("create");
    for group in 0..64 {
        let slot = state.table(0).touch(group, 0, &[group as u8]);
        state.table(0).set(slot, &[1]);
    }
    let first = state
        .commit(Epoch(3))
        .await
        .expect("commit")
        .expect("a file");
    let mut refs = Vec::new();
    for (subtask, groups) in [(0, 0..32), (1, 32..64)] {
        let config = config(&location, subtask, 2);
        let mut part = OperatorState::restore(config, &specs, groups, std::slice::from_ref(&first))
            .await
            .expect("restore");
        assert_eq!(part.stats().rows, 32);
        let written = part
            .commit(Epoch(4))
            .await
            .expect("commit")
            .expect("a file");
        assert_eq!(written.since, Some(Epoch(3)));
        refs.push(written);
    }
    let mut whole = OperatorState::restore(config(&location, 0, 3), &specs, 0..64, &refs)
        .await
        .expect("restore");
    assert_eq!(entries(whole.table(0)).len(), 64);
}

#[tokio::test]
async fn other_tables_than_stored_are_refused_naming_the_difference() {
    let location = memory();
    let mut state =
        OperatorState::create(config(&location, 0, 1), &[keyed()], 0..4096).expect("create");
    set(state.table(0), b"a", b"1");
    let refs = [state
        .commit(Epoch(0))
        .await
        .expect("commit")
        .expect("a file")];
    let other = |change: fn(&mut TableSpec)| {
        let mut spec = keyed();
        change(&mut spec);
        OperatorState::restore(config(&location, 0, 2), &[spec], 0..4096, &refs)
            .now_or_never()
            .expect("memory does not wait")
    };
    use futures::FutureExt;
    for (change, wanted) in [
        (
            (|s| s.version = 2) as fn(&mut TableSpec),
            "keyed, version 1, key (k)",
        ),
        (|s| s.key = "other".into(), "key (other)"),
        (|s| s.kind = TableKind::Ordered, "ordered, version 1"),
        (|s| s.name = "else".into(), "not there"),
    ] {
        let error = other(change).expect_err("refused").to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(
            error.contains("operator `agg`") && error.contains("0.1"),
            "{error}"
        );
    }
    let state = other(|s| s.value = "w".into()).expect("values may differ");
    assert_eq!(state.stored_value_text(0), Some("v"));
}

#[tokio::test]
async fn rewritten_values_survive() {
    let location = memory();
    let specs = [keyed()];
    let mut state =
        OperatorState::create(config(&location, 0, 1), &specs, 0..4096).expect("create");
    set(state.table(0), b"a", b"1");
    set(state.table(0), b"b", b"2");
    let refs = [state
        .commit(Epoch(0))
        .await
        .expect("commit")
        .expect("a file")];
    let mut state = OperatorState::restore(config(&location, 0, 2), &specs, 0..4096, &refs)
        .await
        .expect("restore");
    let doubled = |value: &[u8]| Ok([value, value].concat());
    state.table(0).rewrite(&mut { doubled }).expect("rewrite");
    let refs = [state
        .commit(Epoch(1))
        .await
        .expect("commit")
        .expect("a file")];
    assert_eq!(refs[0].since, Some(Epoch(1)));
    let mut state = OperatorState::restore(config(&location, 0, 3), &specs, 0..4096, &refs)
        .await
        .expect("restore");
    let expected = [
        (b"a".to_vec(), b"11".to_vec()),
        (b"b".to_vec(), b"22".to_vec()),
    ];
    assert_eq!(entries(state.table(0)), expected);
}
