//! Goal: a disk that is full at any moment stops a query with an error that says so, spoils nothing, and once there is room again a
//! restart finishes with every row once (P047).
//! Method: this test binary runs itself as a child with a small file system of its own in memory; the child leaves more and more
//! of it free, so that space runs out at ever later steps.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::queries::Kind;
use crate::shop::Shop;

const CHILD: &str = "WEIR_TEST_FULL_DISK";
const FILES: u64 = 5;
const ROWS: u64 = 30;
const PAGE: u64 = 4096;
const KINDS: [Kind; 4] = [Kind::Purchases, Kind::Windows, Kind::Dedup, Kind::Sessions];

/// Takes all room but `pages` of the file system.
fn fill(ballast: &Path, pages: u64) {
    let mut file = File::create(ballast).expect("a file");
    let page = [7; PAGE as usize];
    while file.write_all(&page).is_ok() {}
    let length = file.metadata().expect("its length").len() / PAGE * PAGE;
    assert!(length > pages * PAGE, "the file system is too small");
    file.set_len(length - pages * PAGE).expect("shorter");
}

/// Runs with `pages` free, then with room again; true if space sufficed from the start.
fn run(kind: Kind, disk: &Path, pages: u64) -> bool {
    let home = disk.join("home");
    let shop = Shop::of(kind, &home);
    (0..FILES).for_each(|number| shop.drop_file(number, ROWS));
    let ballast = disk.join("ballast");
    fill(&ballast, pages);
    let failed = shop.run(Arc::default()).err();
    if let Some(error) = &failed {
        let text = format!("{error:?} {error}");
        assert!(
            text.contains("No space left on device") && text.contains("home"),
            "{kind:?}, {pages} pages: {text}"
        );
        // What is under its final name is whole: reading it panics otherwise.
        let _readable = shop.output_by_manifest();
    }
    fs::remove_file(&ballast).expect("removed");
    shop.drop_file(FILES, ROWS);
    shop.run(Arc::default()).expect("there is room again");
    shop.assert_exactly_once(FILES + 1, ROWS, &format!("{pages} pages were free"));
    fs::remove_dir_all(&home).expect("removed");
    failed.is_none()
}

/// Not a test of its own: the body of the child process.
#[test]
fn child() {
    let Ok(disk) = std::env::var(CHILD) else {
        return;
    };
    for kind in KINDS {
        let failures = (0..400)
            .step_by(3)
            .take_while(|pages| !run(kind, Path::new(&disk), *pages));
        let failures = failures.count();
        println!("{kind:?}: out of space at {failures} moments");
        assert!(
            failures >= 5,
            "{kind:?} ran out of space {failures} times only"
        );
        assert!(failures < 130, "{kind:?} never had enough");
    }
    println!("EVERY ROW ONCE");
}

#[test]
fn p047_a_full_disk_stops_a_query_and_spoils_nothing() {
    let disk = tempfile::tempdir().expect("a directory");
    let mount = "mount -t tmpfs -o size=4m tmpfs \"$1\" && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            mount,
            "sh",
        ])
        .arg(disk.path())
        .arg(std::env::current_exe().expect("this binary"))
        .args(["--exact", "disk_full::child", "--nocapture"])
        .env(CHILD, disk.path())
        .output()
        .expect("unshare, of util-linux");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("EVERY ROW ONCE"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
