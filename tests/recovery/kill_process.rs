//! Goal: SIGKILL at random moments, with files arriving all the while, loses and doubles nothing.
//! Method: this test binary runs itself as a child that runs the query; the parent kills it and starts it again.
//!
//! `WEIR_KILLS` sets the number of kills (8 unless set, half of it for each stateful query), `WEIR_SEED` the moments.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir::prelude::*;

use crate::moments::{number, random};
use crate::queries::Kind;
use crate::shop::Shop;

const CHILD: &str = "WEIR_TEST_CHILD";
const KIND: &str = "WEIR_TEST_KIND";
const ROWS: u64 = 200;

fn spawn(kind: Kind, home: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "kill_process::child", "--nocapture"])
        .env(CHILD, home)
        .env(KIND, format!("{kind:?}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Not a test of its own: the body of the child process.
#[test]
fn child() {
    let (Ok(home), Ok(kind)) = (std::env::var(CHILD), std::env::var(KIND)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(async {
        let shop = Shop::of(Kind::named(&kind), std::path::Path::new(&home));
        let session = shop.session().expect("a session");
        let query = shop
            .start(&session, Trigger::Default, std::sync::Arc::default())
            .await
            .expect("starts");
        query
            .await_termination()
            .await
            .expect("runs until it is killed");
    });
}

#[allow(clippy::disallowed_methods, reason = "a deadline for a child process")]
fn killed_at_random_moments(kind: Kind, kills: u64) {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::of(kind, home.path());
    let mut seed = number("WEIR_SEED", 42);
    let mut files = 0;
    for _ in 0..kills {
        let mut child = spawn(kind, home.path());
        let lives_until = Instant::now() + Duration::from_millis(150 + random(&mut seed) % 600);
        while Instant::now() < lives_until {
            shop.drop_file(files, ROWS);
            files += 1;
            std::thread::sleep(Duration::from_millis(5 + random(&mut seed) % 40));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("gone");
    }
    shop.drop_file(files, ROWS);
    shop.run(std::sync::Arc::default())
        .expect("finishes what is left");
    shop.assert_exactly_once(files + 1, ROWS, &format!("{kills} kills, {files} files"));
}

#[test]
fn exactly_once_under_sigkill_at_random_moments() {
    killed_at_random_moments(Kind::Purchases, number("WEIR_KILLS", 8));
}

#[test]
fn stateful_queries_are_exactly_once_under_sigkill_at_random_moments() {
    for kind in Kind::STATEFUL {
        killed_at_random_moments(kind, number("WEIR_KILLS", 8).div_ceil(2));
    }
}
