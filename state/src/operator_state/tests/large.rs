//! State larger than its memory budget: bounded memory, files that shrink, bases in the checkpoint.

use super::*;

const BUDGET: usize = 256 << 10;

fn small(location: &CheckpointLocation, generation: u64) -> StateConfig {
    let mut config = config(location, 0, generation);
    config.memory_budget = BUDGET;
    config
}

fn value_of(key: u64) -> Vec<u8> {
    // Hard to compress, so that sizes mean something.
    let mut state = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let step = |_| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..100).map(step).collect()
}

#[tokio::test]
async fn state_ten_times_its_budget_keeps_memory_bounded_and_every_value() {
    let location = memory();
    let specs = [keyed()];
    let mut state = OperatorState::create(small(&location, 1), &specs, 0..4096).expect("create");
    let keys = 10 * BUDGET as u64 / 150;
    let per_epoch = 500;
    let mut last = None;
    for (epoch, from) in (0..keys).step_by(per_epoch).enumerate() {
        for key in from..from + per_epoch as u64 {
            set(state.table(0), &key.to_be_bytes(), &value_of(key));
        }
        last = state.commit(Epoch(epoch as u64)).await.expect("commit");
        let stats = state.stats();
        assert!(stats.memory_bytes <= BUDGET as u64, "{stats:?}");
    }
    state.settle().await;
    let stats = state.stats();
    assert!(stats.files_bytes > 4 * BUDGET as u64, "{stats:?}");
    assert!(stats.base.is_some(), "{stats:?}");
    for key in (0..keys).rev().step_by(7) {
        let table = state.table(0);
        let slot = table.touch(0, 0, &key.to_be_bytes());
        table.load().expect("load");
        assert_eq!(table.value(slot), Some(&value_of(key)[..]), "key {key}");
    }
    let rows = state.stats().rows;
    let last = [last.expect("a file")];
    drop(state);
    let mut restored = OperatorState::restore(small(&location, 2), &specs, 0..4096, &last)
        .await
        .expect("restore");
    assert_eq!(restored.stats().rows, rows);
    assert!(restored.stats().memory_bytes <= 2 * BUDGET as u64);
    let all = entries(restored.table(0));
    assert_eq!(all.len() as u64, rows);
    assert!(all.iter().enumerate().all(|(at, (key, value))| {
        *key == (at as u64).to_be_bytes() && *value == value_of(at as u64)
    }));
}

#[tokio::test]
async fn a_changed_key_of_large_state_costs_a_small_file() {
    let location = memory();
    let specs = [keyed()];
    let mut state = OperatorState::create(small(&location, 1), &specs, 0..4096).expect("create");
    for key in 0..20_000_u64 {
        set(state.table(0), &key.to_be_bytes(), &value_of(key));
    }
    state.commit(Epoch(0)).await.expect("commit");
    state.settle().await;
    for epoch in 1..50 {
        set(state.table(0), &epoch_key(epoch), b"new");
        state.commit(Epoch(epoch)).await.expect("commit");
        assert!(state.stats().written_bytes < 600, "{:?}", state.stats());
        state.settle().await;
    }
    assert_eq!(state.stats().rows, 20_000);
}

/// The state fits in memory: there is nothing to spill, and still no epoch writes it as a whole again.
#[tokio::test]
async fn a_changed_key_of_large_state_in_memory_costs_a_small_file() {
    let location = memory();
    let specs = [keyed()];
    let config = || {
        let mut config = config(&location, 0, 1);
        config.max_chain = 4;
        config
    };
    let mut state = OperatorState::create(config(), &specs, 0..4096).expect("create");
    let keys = 200_000_u64;
    for key in 0..keys {
        set(state.table(0), &key.to_be_bytes(), &value_of(key));
    }
    state.commit(Epoch(0)).await.expect("commit");
    assert!(state.stats().written_bytes > 16 << 20);
    assert!(state.stats().memory_bytes < config().memory_budget as u64);
    let mut last = None;
    for epoch in 1..50 {
        set(state.table(0), &epoch_key(epoch), b"new");
        last = state.commit(Epoch(epoch)).await.expect("commit");
        assert!(state.stats().written_bytes < 600, "{:?}", state.stats());
        state.settle().await;
    }
    assert!(state.stats().base.is_some_and(|base| base > Epoch(40)));
    let last = [last.expect("a file")];
    let mut restored = OperatorState::restore(config(), &specs, 0..4096, &last)
        .await
        .expect("restore");
    let all = entries(restored.table(0));
    assert_eq!(all.len() as u64, keys);
    let new = all.iter().filter(|(_, value)| value == b"new").count();
    assert_eq!(new, 49);
}

fn epoch_key(epoch: u64) -> [u8; 8] {
    (epoch * 397).to_be_bytes()
}

async fn expired_space(kind: TableKind) {
    let location = memory();
    let specs = [spec("t", kind)];
    let mut state = OperatorState::create(small(&location, 1), &specs, 0..4096).expect("create");
    let mut largest = 0;
    for epoch in 0..60_u64 {
        let now = epoch as i64 * 1000;
        for n in 0..500 {
            let key = epoch * 500 + n;
            let table = state.table(0);
            let slot = table.touch((key % 4096) as u32, now + n as i64, &key.to_be_bytes());
            table.set_expiring(slot, &value_of(key), now + n as i64);
        }
        let expired = state
            .table(0)
            .expire_silently(now - 10_000)
            .expect("expire");
        if epoch > 11 {
            assert_eq!(expired, 500, "epoch {epoch}");
        }
        state.commit(Epoch(epoch)).await.expect("commit");
        largest = largest.max(state.stats().files_bytes);
    }
    // Eleven epochs of some 60 kB are live; sixty were written.
    assert!(largest > 500_000, "files were used: {largest}");
    assert!(largest < 2_500_000, "space comes back: {largest}");
    let rest = state.table(0).expire_silently(i64::MAX).expect("expire");
    assert!((5000..=5500).contains(&rest), "{rest}");
    for epoch in 60..100 {
        // Memory is over its budget again, so that files learn of what expired.
        for n in 0..3000_u64 {
            let table = state.table(0);
            let slot = table.touch(0, 1_000_000, &n.to_be_bytes());
            table.set_expiring(slot, &value_of(n + epoch), 1_000_000);
        }
        state.commit(Epoch(epoch)).await.expect("commit");
    }
    assert_eq!(state.stats().rows, 3000);
    assert!(state.stats().files_bytes < 2_000_000, "{:?}", state.stats());
}

#[tokio::test]
async fn eviction_of_timed_state_gives_disk_space_back() {
    expired_space(TableKind::Timed { bucket: 1000 }).await;
}

#[tokio::test]
async fn expiry_gives_disk_space_back() {
    expired_space(TableKind::Expiring).await;
}

#[tokio::test]
async fn rewritten_large_state_survives() {
    let location = memory();
    let specs = [
        spec("timed", TableKind::Timed { bucket: 100 }),
        spec("ordered", TableKind::Ordered),
    ];
    let mut state = OperatorState::create(small(&location, 1), &specs, 0..4096).expect("create");
    for key in 0..6000_u64 {
        for table in state.tables_mut() {
            let slot = table.touch(0, key as i64, &key.to_be_bytes());
            table.set(slot, &value_of(key));
        }
    }
    let first = state
        .commit(Epoch(0))
        .await
        .expect("commit")
        .expect("a file");
    for table in state.tables_mut() {
        let mut shorten = |value: &[u8]| Ok(value[..50].to_vec());
        table.rewrite(&mut shorten).expect("rewrite");
    }
    let second = state
        .commit(Epoch(1))
        .await
        .expect("commit")
        .expect("a file");
    drop(state);
    for (snapshot, length) in [(first, 100), (second, 50)] {
        let mut restored =
            OperatorState::restore(small(&location, 2), &specs, 0..4096, &[snapshot])
                .await
                .expect("restore");
        for table in restored.tables_mut() {
            let all = entries(table);
            assert_eq!(all.len(), 6000);
            for (key, value) in all {
                let key = u64::from_be_bytes(key.try_into().expect("8 bytes"));
                assert_eq!(value, value_of(key)[..length]);
            }
        }
    }
}

#[tokio::test]
async fn rewritten_large_state_is_not_committed_without_its_base() {
    let location = memory();
    let specs = [keyed()];
    let mut config = small(&location, 1);
    config.hit = Some(Arc::new(|point: &str| match point {
        "state:base" => Err(crate::StateError::Codec {
            what: "test".into(),
            reason: "no network".into(),
        }),
        _ => Ok(()),
    }));
    let mut state = OperatorState::create(config, &specs, 0..4096).expect("create");
    for key in 0..6000_u64 {
        set(state.table(0), &key.to_be_bytes(), &value_of(key));
    }
    state.commit(Epoch(0)).await.expect("commit");
    let mut shorten = |value: &[u8]| Ok(value[..50].to_vec());
    state.table(0).rewrite(&mut shorten).expect("rewrite");
    let error = state
        .commit(Epoch(1))
        .await
        .expect_err("no base")
        .to_string();
    assert!(error.contains("rewritten values"), "{error}");
}

#[tokio::test]
async fn damaged_or_missing_data_files_and_bases_are_errors_naming_them() {
    let dir = tempfile::tempdir().expect("dir");
    let location = CheckpointLocation::open(dir.path().to_str().expect("unicode")).expect("open");
    let specs = [keyed()];
    let mut config = small(&location, 1);
    config.max_chain = 1;
    let mut state = OperatorState::create(config, &specs, 0..4096).expect("create");
    let mut last = None;
    for epoch in 0..4 {
        for key in 0..5000_u64 {
            set(state.table(0), &key.to_be_bytes(), &value_of(key + epoch));
        }
        last = state.commit(Epoch(epoch)).await.expect("commit");
        state.settle().await;
    }
    let last = [last.expect("a file")];
    assert!(!last[0].bases.is_empty(), "{last:?}");
    let mut files = last[0].bases.clone();
    let data = location.list("state/agg/0/sst").await.expect("list");
    files.extend(
        data.into_iter()
            .map(|f| format!("state/agg/0/sst/{}", f.name)),
    );
    let mut harmful = 0;
    for file in files {
        let path = dir.path().join(&file);
        let whole = std::fs::read(&path).expect("file");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for damage in [Some(&flipped[..]), Some(&whole[..whole.len() - 1]), None] {
            match damage {
                Some(bytes) => std::fs::write(&path, bytes).expect("write"),
                None => std::fs::remove_file(&path).expect("remove"),
            }
            // Data files of older bases are not needed.
            if let Err(error) =
                OperatorState::restore(small(&location, 2), &specs, 0..4096, &last).await
            {
                assert!(error.to_string().contains(&file), "{error}");
                harmful += 1;
            }
        }
        std::fs::write(&path, &whole).expect("write");
    }
    assert!(harmful >= 6, "{harmful}");
    OperatorState::restore(small(&location, 2), &specs, 0..4096, &last)
        .await
        .expect("whole again");
}

#[tokio::test]
async fn failed_upload_loses_nothing_and_is_tried_again() {
    let location = memory();
    let specs = [keyed()];
    let mut config = small(&location, 1);
    config.max_chain = 3;
    let failures = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failures);
    config.hit = Some(Arc::new(move |point: &str| {
        if point == "state:base" && counted.fetch_add(1, Ordering::Relaxed) < 2 {
            return Err(crate::StateError::Codec {
                what: "test".into(),
                reason: "no network".into(),
            });
        }
        Ok(())
    }));
    let mut state = OperatorState::create(config, &specs, 0..4096).expect("create");
    for epoch in 0..20_u64 {
        for key in 0..500 {
            set(
                state.table(0),
                &(epoch * 500 + key).to_be_bytes(),
                &value_of(key),
            );
        }
        let last = [state
            .commit(Epoch(epoch))
            .await
            .expect("commit")
            .expect("a file")];
        state.settle().await;
        if epoch % 6 == 5 {
            let restored =
                OperatorState::restore(small(&location, 2), &specs, 0..4096, &last).await;
            assert_eq!(restored.expect("restore").stats().rows, (epoch + 1) * 500);
        }
    }
    assert!(failures.load(Ordering::Relaxed) > 2);
    assert!(state.stats().base.is_some());
}
