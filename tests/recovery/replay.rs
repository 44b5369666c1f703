//! Restarts without crashes, lost commits, two writers, and runs compared with each other.

use std::fs;
use std::sync::Arc;

use weir::prelude::*;
use weir::runtime::{FailPoints, Fault};

use crate::queries::Kind;
use crate::shop::Shop;

fn block_on<F: std::future::Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}

#[test]
fn restart_reads_only_the_new_file() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    for number in 0..4 {
        shop.drop_file(number, 50);
        shop.run(Arc::default()).expect("ends well");
        shop.assert_exactly_once(number + 1, 50, "after a restart");
    }
}

#[test]
fn e3_lost_manifest_replays_its_epoch_into_a_sink_that_holds_it() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    (0..4).for_each(|number| shop.drop_file(number, 50));
    shop.run(Arc::default()).expect("ends well");
    fs::remove_file(home.path().join("checkpoint/commits/1")).expect("the newest manifest");
    shop.drop_file(4, 50);
    shop.run(Arc::default()).expect("replays");
    shop.assert_exactly_once(5, 50, "epoch 1 was run twice");
}

#[test]
fn e6_second_writer_is_refused_while_the_first_lives() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    shop.drop_file(0, 10);
    block_on(async {
        let session = Session::builder()
            .parallelism(2)
            .build()
            .expect("a session");
        let first = shop
            .start(&session, Trigger::Default, Arc::default())
            .await
            .expect("starts");
        first.process_all_available().await.expect("processed");
        let other = Session::builder().build().expect("another session");
        let second = shop
            .start(&other, Trigger::Default, Arc::default())
            .await
            .expect_err("refused");
        assert_eq!(second.fault(), Fault::Conflict);
        let text = second.to_string();
        assert!(
            text.contains("checkpoint") && text.contains(&std::process::id().to_string()),
            "{text}"
        );
        shop.drop_file(1, 10);
        first
            .process_all_available()
            .await
            .expect("the first goes on");
        first.stop().await;
    });
    shop.assert_exactly_once(2, 10, "with a refused second writer");
}

/// Goal (field case P044): after the checkpoint was deleted the query is a new one, and its epoch 0 is not mistaken for the old
/// query's epoch 0 that the output directory holds.
#[test]
fn p044_new_query_into_the_output_of_another_skips_no_row() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    shop.drop_file(0, 30);
    shop.run(Arc::default()).expect("ends well");
    let before = shop.output_by_manifest();
    fs::remove_dir_all(home.path().join("checkpoint")).expect("the checkpoint");
    shop.drop_file(1, 30);
    shop.run(Arc::default()).expect("ends well");
    let after = shop.output_by_manifest();
    assert!(
        before.keys().all(|id| after[id] == 2),
        "the new query read file 0 again and wrote it"
    );
    assert!(after.len() > before.len(), "and file 1");
}

#[test]
fn e8_output_does_not_depend_on_the_run() {
    let ids = || {
        let home = tempfile::tempdir().expect("a directory");
        let shop = Shop::new(home.path());
        (0..6).for_each(|number| shop.drop_file(number, 40));
        shop.run(Arc::default()).expect("ends well");
        shop.output_by_manifest()
    };
    assert_eq!(ids(), ids());
}

/// Field oracle: the same rows give the same result however they are cut into epochs, spread over subtasks, or interrupted.
#[test]
fn e8_results_do_not_depend_on_how_files_are_cut_into_epochs() {
    for kind in Kind::STATEFUL {
        for (files, parallelism) in [(1, 1), (2, 3), (6, 2)] {
            let home = tempfile::tempdir().expect("a directory");
            let shop = Shop::of(kind, home.path()).cut(files, parallelism);
            (0..6).for_each(|number| shop.drop_file(number, 40));
            shop.run(Arc::default()).expect("ends well");
            shop.assert_exactly_once(6, 40, &format!("{files} files an epoch"));
        }
    }
}

/// The parallelism of a stateful query differs at every start: key groups move.
#[test]
fn stateful_queries_go_on_with_another_parallelism_after_every_restart() {
    for kind in Kind::STATEFUL {
        let home = tempfile::tempdir().expect("a directory");
        for (number, parallelism) in (0..8).zip([1, 2, 3, 5, 4, 1, 3, 2]) {
            let shop = Shop::of(kind, home.path()).cut(1, parallelism);
            shop.drop_file(number, 40);
            shop.run(Arc::default()).expect("goes on");
            let situation = format!("start {number} with {parallelism} subtasks");
            shop.assert_exactly_once(number + 1, 40, &situation);
        }
    }
}

/// A lost commit runs its epoch again over the state of the epoch before, not over its own.
#[test]
fn e2_lost_commit_of_a_stateful_query_restores_the_state_before_it() {
    for kind in Kind::STATEFUL {
        let home = tempfile::tempdir().expect("a directory");
        for number in 0..5 {
            let shop = Shop::of(kind, home.path());
            shop.drop_file(number, 40);
            shop.run(Arc::default()).expect("ends well");
            let commits = fs::read_dir(home.path().join("checkpoint/commits")).expect("listed");
            let numbers =
                commits.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
            let newest = numbers.max().expect("a commit");
            fs::remove_file(home.path().join(format!("checkpoint/commits/{newest}")))
                .expect("the newest manifest");
        }
        let shop = Shop::of(kind, home.path());
        shop.drop_file(5, 40);
        shop.run(Arc::default()).expect("ends well");
        shop.assert_exactly_once(6, 40, "every newest commit was lost once");
    }
}

/// Goal: a file that an epoch has planned and that is gone or another one when the epoch is replayed is an error that names it, never
/// an epoch without its rows; when the file is back the query goes on.
#[test]
fn e1_a_planned_file_that_vanished_or_changed_before_the_replay_is_an_error() {
    let shop = |home: &std::path::Path| {
        let shop = Shop::new(home).cut(1, 1);
        (0..2).for_each(|number| shop.drop_file(number, 30));
        shop
    };
    let counted = Arc::new(FailPoints::recording());
    let home = tempfile::tempdir().expect("a directory");
    let undisturbed = shop(home.path()).run(Arc::clone(&counted));
    undisturbed.expect("ends well");
    let names = counted.names();
    let planned = names.iter().position(|name| *name == "sink-commit:before");
    let planned = planned.expect("a commit") as u64;

    let home = tempfile::tempdir().expect("a directory");
    let shop = shop(home.path());
    let crashed = shop.run(Arc::new(FailPoints::crash_at(planned)));
    assert!(crashed.is_err(), "after the plan of the first epoch");
    let (file, aside) = (home.path().join("in/00000.json"), home.path().join("aside"));
    fs::rename(&file, &aside).expect("taken away");
    let error = shop.run(Arc::default()).expect_err("the file is gone");
    assert_eq!(error.fault(), Fault::Data, "{error}");
    assert!(error.to_string().contains("00000.json"), "{error}");
    fs::write(&file, "{}\n").expect("another file");
    let error = shop.run(Arc::default()).expect_err("it is another file");
    assert!(
        error.to_string().contains("changed after it was planned"),
        "{error}"
    );
    fs::rename(&aside, &file).expect("put back");
    shop.run(Arc::default()).expect("goes on");
    shop.assert_exactly_once(2, 30, "a file was away");
}
