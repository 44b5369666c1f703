//! What moves the watermark and what holds it.

use std::time::Duration;

use super::*;

fn seen(max_ms: i64) -> EventTimeStats {
    EventTimeStats {
        min_ms: 0,
        max_ms,
        sum_ms: 0.0,
        count: 1,
        delay_ms: 10,
    }
}

fn tracker(settings: WatermarkSettings, definers: &[&str], current_ms: i64) -> WatermarkTracker {
    let definers = definers
        .iter()
        .map(|uid| ((*uid).to_owned(), vec![format!("source-{uid}")]));
    WatermarkTracker::new(settings, definers, current_ms)
}

fn idle_after(ms: u64) -> WatermarkSettings {
    WatermarkSettings {
        idle_timeout: Some(Duration::from_millis(ms)),
        ..WatermarkSettings::default()
    }
}

#[test]
fn e7_watermark_never_goes_back() {
    let mut tracker = tracker(WatermarkSettings::default(), &["w"], 0);
    tracker.observe("w", &seen(100), 0);
    assert_eq!(tracker.at(0), 90);
    tracker.observe("w", &seen(50), 0);
    assert_eq!(tracker.at(0), 90);
}

#[test]
fn e7_watermark_goes_on_from_the_durable_value_after_a_restart() {
    let mut tracker = tracker(WatermarkSettings::default(), &["w"], 90);
    assert_eq!(tracker.at(0), 90);
    tracker.observe("w", &seen(95), 0);
    assert_eq!(tracker.at(0), 90);
}

#[test]
fn policies_let_the_slowest_or_the_fastest_decide() {
    for (policy, expected) in [(WatermarkPolicy::Min, 0), (WatermarkPolicy::Max, 90)] {
        let settings = WatermarkSettings {
            policy,
            ..WatermarkSettings::default()
        };
        let mut tracker = tracker(settings, &["a", "b"], 0);
        tracker.observe("a", &seen(100), 0);
        assert_eq!(tracker.at(0), expected, "{policy:?}");
    }
}

#[test]
fn e7_silent_stream_holds_the_watermark_for_ever_without_a_timeout() {
    let mut tracker = tracker(WatermarkSettings::default(), &["a", "b"], 0);
    tracker.observe("a", &seen(100), 0);
    assert_eq!(tracker.at(i64::MAX), 0);
}

#[test]
fn e7_stream_that_never_had_data_lets_go_after_the_timeout() {
    let mut tracker = tracker(idle_after(500), &["a", "b"], 0);
    assert_eq!(tracker.at(1_000), 0, "the first look starts the time");
    tracker.observe("a", &seen(100), 1_200);
    assert_eq!(tracker.at(1_499), 0);
    assert_eq!(tracker.at(1_500), 90);
    tracker.observe("b", &seen(30), 1_600);
    assert_eq!(tracker.at(1_600), 90, "it never goes back");
    tracker.observe("a", &seen(300), 1_700);
    assert_eq!(
        tracker.at(1_700),
        90,
        "the stream that woke up has its say again"
    );
}

#[test]
fn e7_idle_streams_together_do_not_hold_each_other_back() {
    let mut tracker = tracker(idle_after(10), &["a", "b"], 0);
    tracker.observe("a", &seen(100), 0);
    tracker.observe("b", &seen(50), 0);
    assert_eq!((tracker.at(9), tracker.at(10)), (40, 90));
}

#[test]
fn e7_splits_have_their_own_say_where_asked() {
    let settings = WatermarkSettings {
        per_split: true,
        ..idle_after(100)
    };
    let mut tracker = tracker(settings, &["w", "other"], 0);
    let splits = ["p0".to_owned(), "p1".to_owned()];
    tracker.know_splits("source-w", &splits, 0);
    tracker.observe("w", &seen(500), 0);
    tracker.observe("other", &seen(400), 0);
    tracker.observe_split("w", "source-w", "p0", &seen(500), 0);
    assert_eq!(tracker.at(0), 0, "p1 has not begun");
    tracker.observe_split("w", "source-w", "p1", &seen(200), 60);
    assert_eq!(tracker.at(60), 190);
    tracker.observe("other", &seen(400), 120);
    assert_eq!(tracker.at(120), 190, "only p0 is idle");
    assert_eq!(tracker.at(160), 390, "p1 is idle too, 'other' is not");
}

#[test]
fn e7_parts_survive_a_restart_where_an_option_needs_them() {
    let mut before = tracker(idle_after(100), &["a", "b"], 0);
    before.observe("a", &seen(100), 5);
    before.observe("b", &seen(70), 50);
    assert_eq!(before.at(50), 60);
    let mut after = tracker(idle_after(100), &["a", "b"], 60);
    after.restore(&before.parts());
    assert_eq!(after.parts(), before.parts());
    assert_eq!(
        (after.at(149), after.at(150)),
        (60, 90),
        "idle since before the restart"
    );
    assert!(
        tracker(WatermarkSettings::default(), &["a"], 0)
            .parts()
            .is_empty()
    );
}
