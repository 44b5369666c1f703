//! The source log against a model, with compaction, replanning and damage.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::clock::{ManualClock, SystemClock};

fn interval(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not 0")
}

fn location(dir: &Path) -> CheckpointLocation {
    CheckpointLocation::open(dir.to_str().expect("unicode")).expect("open")
}

async fn open(dir: &Path) -> SourceLog<String> {
    SourceLog::open(location(dir), "0", COMPACT_INTERVAL)
        .await
        .expect("open")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.join("sources/0"))
        .expect("list")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn texts(logged: Vec<Logged<String>>) -> Vec<String> {
    logged.into_iter().map(|l| l.entry).collect()
}

async fn append_all(log: &mut SourceLog<String>, epochs: impl IntoIterator<Item = u64>) {
    for epoch in epochs {
        log.append(Epoch(epoch), vec![format!("f{epoch}")], |_| true)
            .await
            .expect("append");
    }
}

fn expected(epochs: impl IntoIterator<Item = u64>) -> Vec<String> {
    epochs.into_iter().map(|e| format!("f{e}")).collect()
}

#[tokio::test]
async fn source_log_empty_loads_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await;
    assert_eq!(log.load(None).await.expect("load"), vec![]);
    assert_eq!(log.load(Some(Epoch(5))).await.expect("load"), vec![]);
}

#[tokio::test]
async fn source_log_every_tenth_file_is_compact_and_replaced_files_go_one_compact_later() {
    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await;
    append_all(&mut log, 0..10).await;
    assert_eq!(names(dir.path()).len(), 10);
    assert!(names(dir.path()).contains(&"9.compact".to_string()));
    append_all(&mut log, 10..20).await;
    let left = names(dir.path());
    assert_eq!(left.len(), 11, "{left:?}");
    assert!(left.contains(&"9.compact".into()) && left.contains(&"19.compact".into()));
    assert!(!left.contains(&"8".into()) && left.contains(&"10".into()));
    append_all(&mut log, 20..45).await;
    let mut again = open(dir.path()).await;
    let loaded = again.load(Some(Epoch(44))).await.expect("load");
    assert_eq!(texts(loaded), expected(0..45));
    assert!(names(dir.path()).len() <= 20);
}

#[tokio::test]
async fn source_log_lines_are_readable_by_people() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..2).await;
    let text = std::fs::read_to_string(dir.path().join("sources/0/1")).expect("read");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines, [r#"{"previous":0}"#, r#"{"epoch":1,"entry":"f1"}"#]);
}

#[tokio::test]
async fn source_log_load_discards_epochs_that_were_never_planned() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..5).await;
    let mut log = open(dir.path()).await;
    let loaded = log.load(Some(Epoch(2))).await.expect("load");
    assert_eq!(texts(loaded), expected(0..3));
    assert_eq!(names(dir.path()), ["0", "1", "2"]);
    // Epoch 3 is planned anew and this source has nothing for it: the old entry must not come back.
    append_all(&mut log, [4]).await;
    let loaded = open(dir.path())
        .await
        .load(Some(Epoch(4)))
        .await
        .expect("load");
    assert_eq!(texts(loaded), ["f0", "f1", "f2", "f4"]);
}

#[tokio::test]
async fn source_log_void_compact_is_discarded_without_loss() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..20).await;
    let mut log = open(dir.path()).await;
    let loaded = log.load(Some(Epoch(18))).await.expect("load");
    assert_eq!(texts(loaded), expected(0..19));
    assert!(!names(dir.path()).contains(&"19.compact".into()));
    log.append(Epoch(19), vec!["other".into()], |_| true)
        .await
        .expect("append");
    let loaded = open(dir.path())
        .await
        .load(Some(Epoch(19)))
        .await
        .expect("load");
    assert_eq!(texts(loaded)[19], "other");
}

#[tokio::test]
async fn source_log_torn_newest_unplanned_file_is_ignored() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..4).await;
    std::fs::write(dir.path().join("sources/0/3"), "").expect("truncate");
    let loaded = open(dir.path())
        .await
        .load(Some(Epoch(2)))
        .await
        .expect("load");
    assert_eq!(texts(loaded), expected(0..3));
}

#[tokio::test]
async fn source_log_torn_planned_file_is_an_error_until_it_is_written_again() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..4).await;
    let path = dir.path().join("sources/0/3");
    let whole = std::fs::read(&path).expect("read");
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).expect("truncate");
        let error = open(dir.path())
            .await
            .load(Some(Epoch(3)))
            .await
            .expect_err("torn");
        assert!(
            matches!(&error, StateError::Damaged { epoch: Some(Epoch(3)), path, .. } if path.ends_with("sources/0/3")),
            "{error}"
        );
    }
    let mut log = open(dir.path()).await;
    append_all(&mut log, [3]).await;
    assert_eq!(
        texts(log.load(Some(Epoch(3))).await.expect("load")),
        expected(0..4)
    );
}

#[tokio::test]
async fn source_log_missing_file_in_the_middle_is_an_error_naming_it() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, [0, 2, 3, 7]).await;
    std::fs::remove_file(dir.path().join("sources/0/3")).expect("remove");
    let error = open(dir.path())
        .await
        .load(Some(Epoch(7)))
        .await
        .expect_err("hole");
    assert!(
        matches!(
            error,
            StateError::Missing {
                epoch: Some(Epoch(3)),
                ..
            }
        ),
        "{error}"
    );
    let loaded = open(dir.path())
        .await
        .read(Epoch(2))
        .await
        .expect("before the hole");
    assert_eq!(texts(loaded), ["f0", "f2"]);
}

#[tokio::test]
async fn source_log_compaction_drops_what_the_caller_does_not_keep() {
    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await;
    for epoch in 0..10 {
        let keep = |entry: &String| entry.as_str() >= "f5";
        log.append(Epoch(epoch), vec![format!("f{epoch}")], keep)
            .await
            .expect("append");
    }
    let loaded = log.load(Some(Epoch(9))).await.expect("load");
    assert_eq!(texts(loaded), expected(5..10));
}

#[tokio::test]
async fn source_log_append_before_a_later_epoch_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await;
    append_all(&mut log, [5]).await;
    let error = log
        .append(Epoch(4), vec![], |_| true)
        .await
        .expect_err("order");
    assert!(
        matches!(
            error,
            StateError::OutOfOrder {
                epoch: Epoch(4),
                newest: Epoch(5),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn source_log_of_an_outside_reader_changes_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    append_all(&mut open(dir.path()).await, 0..25).await;
    let before = names(dir.path());
    for up_to in 0..25 {
        let read = open(dir.path())
            .await
            .read(Epoch(up_to))
            .await
            .expect("read");
        assert_eq!(texts(read), expected(0..=up_to), "up to {up_to}");
    }
    assert_eq!(names(dir.path()), before);
}

#[tokio::test]
async fn source_log_many_entries_are_read_back_in_order() {
    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await;
    let mut all = Vec::new();
    for epoch in 0..25_u64 {
        let entries: Vec<String> = (0..2_000)
            .map(|n| format!("file:///in/part-{epoch}-{n}.json"))
            .collect();
        all.extend(entries.clone());
        log.append(Epoch(epoch), entries, |_| true)
            .await
            .expect("append");
    }
    let loaded = open(dir.path())
        .await
        .load(Some(Epoch(24)))
        .await
        .expect("load");
    assert_eq!(texts(loaded), all);
}

#[tokio::test]
async fn source_log_cleanup_waits_for_its_delay_or_never_comes() {
    let dir = tempfile::tempdir().expect("dir");
    let clock = Arc::new(ManualClock::new(0));
    let after = Cleanup::After(
        Duration::from_secs(60),
        Arc::clone(&clock) as Arc<dyn Clock>,
    );
    let mut log = open(dir.path()).await.with_cleanup(after);
    append_all(&mut log, 0..25).await;
    assert!(
        names(dir.path()).contains(&"0".to_owned()),
        "the delay has begun"
    );
    clock.advance(Duration::from_secs(59));
    append_all(&mut log, 25..26).await;
    assert!(names(dir.path()).contains(&"0".to_owned()));
    clock.advance(Duration::from_secs(1));
    append_all(&mut log, 26..27).await;
    let left = names(dir.path());
    assert!(
        !left.contains(&"0".to_owned()) && left.contains(&"9.compact".to_owned()),
        "{left:?}"
    );
    assert_eq!(
        texts(log.load(Some(Epoch(26))).await.expect("load")),
        expected(0..27)
    );

    let dir = tempfile::tempdir().expect("dir");
    let mut log = open(dir.path()).await.with_cleanup(Cleanup::Never);
    append_all(&mut log, 0..45).await;
    assert_eq!(names(dir.path()).len(), 45);
}

#[tokio::test]
async fn source_log_cleanup_goes_on_after_a_restart_by_the_times_of_files() {
    let dir = tempfile::tempdir().expect("dir");
    let minute = Duration::from_secs(60);
    let at = |now_ms| Cleanup::After(minute, Arc::new(ManualClock::new(now_ms)));
    let mut log = open(dir.path()).await.with_cleanup(at(0));
    append_all(&mut log, 0..25).await;
    let now_ms = SystemClock::new().now_ms();
    let mut log = open(dir.path()).await.with_cleanup(at(now_ms));
    append_all(&mut log, 25..26).await;
    assert_eq!(names(dir.path()).len(), 26, "written just now");
    let mut log = open(dir.path()).await.with_cleanup(at(now_ms + 120_000));
    append_all(&mut log, 26..27).await;
    let left = names(dir.path());
    assert!(
        !left.contains(&"8".to_owned()) && left.contains(&"9.compact".to_owned()),
        "{left:?}"
    );
    let loaded = log.load(Some(Epoch(26))).await.expect("load");
    assert_eq!(texts(loaded), expected(0..27));
}

#[test]
fn source_log_futures_can_move_between_threads() {
    fn assert_send<T: Send>(_: T) {}
    let location = CheckpointLocation::open("memory://source-log").expect("open");
    assert_send(SourceLog::<String>::open(
        location.clone(),
        "0",
        COMPACT_INTERVAL,
    ));
    let mut log =
        futures::executor::block_on(SourceLog::<String>::open(location, "0", COMPACT_INTERVAL))
            .expect("open");
    assert_send(log.append(Epoch(0), vec![], |_| true));
    assert_send(log.load(None));
}

/// What may happen to a log between two starts.
#[derive(Debug, Clone)]
enum Event {
    /// The next epoch is appended and planned.
    Epoch(Vec<u16>),
    /// The next epoch has nothing for this source.
    Idle,
    /// The next epoch is appended, but the run ends before its plan; then a restart.
    AppendAndCrash(Vec<u16>),
    /// A restart.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let entries = || prop::collection::vec(any::<u16>(), 0..4);
    prop_oneof![
        5 => entries().prop_map(Event::Epoch),
        1 => Just(Event::Idle),
        2 => entries().prop_map(Event::AppendAndCrash),
        1 => Just(Event::Restart),
    ]
}

async fn check(location: &CheckpointLocation, every: NonZeroU32, events: Vec<Event>) {
    let start = || async {
        SourceLog::<u16>::open(location.clone(), "src", every)
            .await
            .expect("open")
    };
    let mut model: BTreeMap<Epoch, Vec<u16>> = BTreeMap::new();
    let (mut planned, mut next) = (None, Epoch::FIRST);
    let mut log = start().await;
    for event in events {
        let mut restart = false;
        match event {
            Event::Epoch(entries) => {
                log.append(next, entries.clone(), |_| true)
                    .await
                    .expect("append");
                model.insert(next, entries);
                planned = Some(next);
                next = next.next();
            }
            Event::Idle => {
                planned = Some(next);
                next = next.next();
            }
            Event::AppendAndCrash(entries) => {
                log.append(next, entries, |_| true).await.expect("append");
                restart = true;
            }
            Event::Restart => restart = true,
        }
        if restart {
            log = start().await;
            let loaded = log.load(planned).await.expect("load");
            let expected: Vec<(Epoch, u16)> = model
                .iter()
                .flat_map(|(epoch, entries)| entries.iter().map(|e| (*epoch, *e)))
                .collect();
            let found: Vec<(Epoch, u16)> = loaded.iter().map(|l| (l.epoch, l.entry)).collect();
            assert_eq!(found, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn source_log_any_history_loads_what_was_planned(
        every in 1_u32..6,
        mut events in prop::collection::vec(event(), 0..40),
    ) {
        events.push(Event::Restart);
        let location = CheckpointLocation::open(&format!("memory://{}", uuid::Uuid::new_v4()))
            .expect("open");
        futures::executor::block_on(check(&location, interval(every), events));
    }
}
