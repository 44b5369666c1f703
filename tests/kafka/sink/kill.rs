//! Goal: SIGKILL at random moments, with files arriving all the while, loses and doubles nothing in a topic. Method: this test binary
//! runs itself as a child that runs the query; the parent kills it and starts it again.
//!
//! `WEIR_KILLS` sets the number of kills (6 unless set), `WEIR_SEED` the moments.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir::prelude::*;

use super::servers;
use super::shop::{INPUT_PARTITIONS, Kind, Shop, block_on};
use super::topics::create;
use crate::moments::{number, random};

const CHILD: &str = "WEIR_TEST_CHILD";
const ROWS: u64 = 100;

/// The child is told its query by one variable: kind, home, servers, topic, delivery guarantee, and the
/// topic of actions (empty: files).
pub(crate) fn spawn(told: [&str; 6]) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "sink::kill::child", "--nocapture"])
        .env(CHILD, told.join("\n"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Not a test of its own: the body of the child process.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let told: Vec<&str> = told.split('\n').collect();
    let [kind, home, servers, topic, guarantee, input] = told[..] else {
        panic!("six parts");
    };
    block_on(async {
        let shop = Shop::new(
            Kind::named(kind),
            std::path::Path::new(home),
            servers,
            topic,
        )
        .with("deliveryGuarantee", guarantee);
        let shop = if input.is_empty() {
            shop
        } else {
            shop.reading(input)
        };
        let query = shop
            .start(Trigger::Default, Arc::default())
            .await
            .expect("starts");
        query
            .await_termination()
            .await
            .expect("runs until it is killed");
    });
}

#[allow(clippy::disallowed_methods, reason = "a deadline for a child process")]
fn killed_at_random_moments(kind: Kind, kills: u64, from_topic: bool) {
    let home = tempfile::tempdir().expect("a directory");
    let topic = create(servers(), "kill", 3, &[]);
    let mut shop = Shop::new(kind, home.path(), servers(), &topic);
    let mut input = String::new();
    if from_topic {
        input = create(servers(), "actions", INPUT_PARTITIONS, &[]);
        shop = shop.reading(&input);
    }
    let (name, path) = (format!("{kind:?}"), home.path().display().to_string());
    let (mut seed, mut files) = (number("WEIR_SEED", 42), 0);
    for _ in 0..kills {
        let mut child = spawn([&name, &path, servers(), &topic, "exactly-once", &input]);
        let lives_until = Instant::now() + Duration::from_millis(400 + random(&mut seed) % 900);
        while Instant::now() < lives_until {
            shop.drop_file(files, ROWS);
            files += 1;
            std::thread::sleep(Duration::from_millis(10 + random(&mut seed) % 60));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("gone");
    }
    shop.drop_file(files, ROWS);
    shop.run(Arc::default()).expect("finishes what is left");
    shop.assert_exactly_once(&format!("{kills} kills, {files} files"));
}

#[test]
fn rows_are_exactly_once_under_sigkill_at_random_moments() {
    killed_at_random_moments(Kind::Purchases, number("WEIR_KILLS", 6), false);
}

#[test]
fn windows_are_exactly_once_under_sigkill_at_random_moments() {
    killed_at_random_moments(Kind::Windows, number("WEIR_KILLS", 6), false);
}

#[test]
fn totals_are_right_under_sigkill_at_random_moments() {
    killed_at_random_moments(Kind::Totals, number("WEIR_KILLS", 6), false);
}

#[test]
fn windows_from_topic_to_topic_are_exactly_once_under_sigkill_at_random_moments() {
    killed_at_random_moments(Kind::Windows, number("WEIR_KILLS", 6), true);
}
