//! Every rule of recovery, on facts alone.

use super::*;

/// A checkpoint in memory: what is whole, what is torn.
#[derive(Default, Clone)]
struct Fake {
    plans: Vec<u64>,
    manifests: Vec<u64>,
    torn_plans: Vec<u64>,
    torn_manifests: Vec<u64>,
    policy: TornManifest,
}

fn plan(epoch: u64) -> Plan {
    Plan {
        epoch: Epoch(epoch),
        generation: 1,
        watermark_ms: 0,
        batch_timestamp_ms: epoch as i64,
        config: BTreeMap::new(),
        sources: Vec::new(),
    }
}

fn manifest(epoch: u64) -> Manifest {
    Manifest::new(Epoch(epoch), 1, epoch as i64)
}

impl Fake {
    fn new(plans: impl IntoIterator<Item = u64>, manifests: impl IntoIterator<Item = u64>) -> Self {
        Fake {
            plans: plans.into_iter().collect(),
            manifests: manifests.into_iter().collect(),
            ..Fake::default()
        }
    }

    /// What the executor does, without files.
    fn recover(&self) -> Result<Recovery> {
        let epochs = |list: &[u64]| list.iter().copied().map(Epoch).collect();
        let mut facts = Facts {
            location: "/ck".to_string(),
            metadata: true,
            plans: epochs(&self.plans),
            manifests: epochs(&self.manifests),
            torn_manifest: self.policy,
            ..Facts::default()
        };
        for _ in 0..10 {
            match decide(&facts)? {
                Decision::Read(LogFile::Plan(epoch)) => {
                    let torn = self.torn_plans.contains(&epoch.0);
                    let content = if torn {
                        Content::Torn("it is empty".into())
                    } else {
                        Content::Whole(plan(epoch.0))
                    };
                    assert!(
                        facts.plans_read.insert(epoch, content).is_none(),
                        "read twice"
                    );
                }
                Decision::Read(LogFile::Manifest(epoch)) => {
                    let torn = self.torn_manifests.contains(&epoch.0);
                    let content = if torn {
                        Content::Torn("it is empty".into())
                    } else {
                        Content::Whole(manifest(epoch.0))
                    };
                    assert!(
                        facts.manifests_read.insert(epoch, content).is_none(),
                        "read twice"
                    );
                }
                Decision::Discard(file, _) => {
                    match file {
                        LogFile::Plan(epoch) => facts.plans.retain(|e| *e != epoch),
                        LogFile::Manifest(epoch) => facts.manifests.retain(|e| *e != epoch),
                    }
                    facts.discarded.push(file);
                }
                Decision::Done(recovery) => return Ok(recovery),
            }
        }
        panic!("no end")
    }

    fn error(&self) -> String {
        self.recover().expect_err("must refuse").to_string()
    }
}

fn resume(last: Option<u64>, replay: Option<u64>, next: u64, discarded: &[&str]) -> Recovery {
    Recovery::Resume {
        last_manifest: last.map(manifest),
        last_plan: last.map(plan),
        replay: replay.map(plan),
        next_epoch: Epoch(next),
        discarded: discarded.iter().map(|s| s.to_string()).collect(),
    }
}

#[test]
fn recover_logs_level_continues_with_the_next_epoch() {
    let recovery = Fake::new(0..=5, 0..=5).recover().expect("resume");
    assert_eq!(recovery, resume(Some(5), None, 6, &[]));
    assert_eq!(recovery.newest_planned(), Some(Epoch(5)));
}

#[test]
fn recover_plan_one_ahead_replays_it() {
    let recovery = Fake::new(0..=6, 0..=5).recover().expect("resume");
    assert_eq!(recovery, resume(Some(5), Some(6), 6, &[]));
    assert_eq!(recovery.newest_planned(), Some(Epoch(6)));
    assert_eq!(
        Fake::new([0], []).recover().expect("resume"),
        resume(None, Some(0), 0, &[])
    );
}

#[test]
fn recover_metadata_alone_starts_at_the_first_epoch() {
    let recovery = Fake::default().recover().expect("resume");
    assert_eq!(recovery, resume(None, None, 0, &[]));
    assert_eq!(recovery.newest_planned(), None);
}

#[test]
fn recover_pruned_logs_need_not_begin_at_zero() {
    assert_eq!(
        Fake::new(40..=50, 45..=50).recover().expect("resume"),
        resume(Some(50), None, 51, &[])
    );
    assert_eq!(
        Fake::new([50, 51], [50]).recover().expect("resume"),
        resume(Some(50), Some(51), 51, &[])
    );
}

#[test]
fn recover_torn_newest_plan_without_manifest_is_discarded() {
    let mut fake = Fake::new(0..=6, 0..=5);
    fake.torn_plans = vec![6];
    let recovery = fake.recover().expect("resume");
    assert_eq!(recovery, resume(Some(5), None, 6, &["offsets/6"]));
    let mut first = Fake::new([0], []);
    first.torn_plans = vec![0];
    let recovery = first.recover().expect("resume");
    assert_eq!(recovery, resume(None, None, 0, &["offsets/0"]));
}

#[test]
fn recover_torn_plan_of_a_committed_epoch_is_refused() {
    let mut fake = Fake::new(0..=5, 0..=5);
    fake.torn_plans = vec![5];
    assert!(
        fake.error()
            .starts_with("file `/ck/offsets/5` is damaged: it is empty; ")
    );
    // Also when the next plan could be replayed: its state is the manifest's, its start the torn plan's end.
    let mut fake = Fake::new(0..=6, 0..=5);
    fake.torn_plans = vec![5];
    assert!(fake.error().contains("offsets/5"));
}

#[test]
fn recover_torn_manifest_is_refused_by_default() {
    let mut fake = Fake::new(0..=5, 0..=5);
    fake.torn_manifests = vec![5];
    let error = fake.error();
    assert!(
        error.starts_with("file `/ck/commits/5` is damaged"),
        "{error}"
    );
    assert!(
        error.contains("deleting it makes its epoch run again"),
        "{error}"
    );
}

#[test]
fn recover_torn_newest_manifest_runs_again_when_asked_to() {
    let mut fake = Fake::new(0..=5, 0..=5);
    fake.torn_manifests = vec![5];
    fake.policy = TornManifest::RunAgain;
    assert_eq!(
        fake.recover().expect("resume"),
        resume(Some(4), Some(5), 5, &["commits/5"])
    );
    let mut first = Fake::new([0], [0]);
    first.torn_manifests = vec![0];
    first.policy = TornManifest::RunAgain;
    assert_eq!(
        first.recover().expect("resume"),
        resume(None, Some(0), 0, &["commits/0"])
    );
}

#[test]
fn recover_torn_manifest_that_cannot_run_again_is_refused_even_when_asked_to() {
    let run_again = |mut fake: Fake, torn_manifests: &[u64], torn_plans: &[u64]| {
        fake.policy = TornManifest::RunAgain;
        fake.torn_manifests = torn_manifests.to_vec();
        fake.torn_plans = torn_plans.to_vec();
        fake.error()
    };
    // The manifest before is gone, torn too, or a newer plan already builds on the torn one.
    assert!(run_again(Fake::new([5], [5]), &[5], &[]).contains("commits/5"));
    assert!(run_again(Fake::new(0..=5, 0..=5), &[4, 5], &[]).contains("commits/4"));
    assert!(run_again(Fake::new(0..=6, 0..=5), &[5], &[]).contains("commits/5"));
    // Its own plan is torn: planning anew would show other data under the same epoch.
    assert!(run_again(Fake::new(0..=5, 0..=5), &[5], &[5]).contains("offsets/5"));
}

#[test]
fn recover_hole_is_refused_naming_the_missing_file() {
    let error = Fake::new([0, 1, 3], [0, 1, 2]).error();
    assert!(
        error.starts_with("file `/ck/offsets/2` is missing"),
        "{error}"
    );
    let error = Fake::new(0..=5, [0, 1, 2, 4, 5]).error();
    assert!(
        error.starts_with("file `/ck/commits/3` is missing"),
        "{error}"
    );
}

#[test]
fn recover_plans_more_than_one_ahead_are_refused() {
    for (fake, part) in [
        (Fake::new(0..=7, 0..=5), "manifest is of epoch 5"),
        (Fake::new(0..=1, []), "there is no manifest"),
        (Fake::new([7], []), "there is no manifest"),
    ] {
        let error = fake.recover().expect_err("apart");
        assert!(matches!(error, StateError::LogsApart { .. }));
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn recover_manifest_without_plan_is_refused() {
    for fake in [
        Fake::new(0..=4, 0..=5),
        Fake::new([], [5]),
        Fake::new([6], [5]),
    ] {
        let error = fake.error();
        assert!(
            error.starts_with("file `/ck/offsets/5` is missing"),
            "{error}"
        );
        assert!(error.contains("`commits/5`"), "{error}");
    }
}

#[test]
fn recover_without_metadata_is_fresh_only_when_empty() {
    let facts = |change: fn(&mut Facts)| {
        let mut facts = Facts {
            location: "/ck".to_string(),
            ..Facts::default()
        };
        change(&mut facts);
        decide(&facts)
    };
    assert_eq!(
        facts(|_| {}).expect("fresh"),
        Decision::Done(Recovery::Fresh)
    );
    let missing: [fn(&mut Facts); 3] = [
        |f| f.plans = vec![Epoch(0)],
        |f| f.manifests = vec![Epoch(0)],
        |f| f.other_data = true,
    ];
    for change in missing {
        let error = facts(change).expect_err("missing").to_string();
        assert!(
            error.starts_with("file `/ck/metadata` is missing"),
            "{error}"
        );
    }
    let error = facts(|f| f.foreign = vec!["thesis.doc".into()]).expect_err("foreign");
    assert!(matches!(error, StateError::ForeignDirectory { .. }));
    assert!(error.to_string().contains("`thesis.doc`"), "{error}");
}

#[test]
fn recover_unknown_names_beside_metadata_do_not_matter() {
    let facts = Facts {
        metadata: true,
        foreign: vec!["README".into()],
        ..Facts::default()
    };
    assert!(matches!(decide(&facts), Ok(Decision::Done(_))));
}

/// Every crash of a run of epochs leaves logs that recovery accepts, with the epoch that was open.
#[test]
fn recover_after_a_crash_between_any_two_writes_never_refuses() {
    for epochs in 0..6_u64 {
        let level = Fake::new(0..epochs, 0..epochs).recover().expect("level");
        assert_eq!(level.next_epoch(), Epoch(epochs));
        let open = Fake::new(0..=epochs, 0..epochs).recover().expect("open");
        assert_eq!(open.next_epoch(), Epoch(epochs));
        assert!(matches!(
            open,
            Recovery::Resume {
                replay: Some(_),
                ..
            }
        ));
    }
}
