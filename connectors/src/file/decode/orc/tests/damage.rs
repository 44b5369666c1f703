//! Files that are cut off or have other bytes: errors or other values, never a panic, more rows, or memory without end.

use proptest::prelude::*;

use super::*;

/// What a damaged file is read as; an error names it.
fn rows(bytes: &[u8], settings: &DecodeSettings) -> Option<usize> {
    match read(bytes, settings) {
        Ok(batch) => Some(batch.num_rows()),
        Err(error) => {
            assert!(error.to_string().contains("dir/f.orc"), "{error}");
            None
        }
    }
}

#[test]
fn file_that_is_cut_off_anywhere_is_an_error() {
    for name in ["types-zlib.orc", "many.orc"] {
        let whole = bytes_of(name);
        let settings = DecodeSettings::new(&schema_of(&whole));
        let step = whole.len() / 500 + 1;
        for length in (0..whole.len()).step_by(step) {
            assert_eq!(rows(&whole[..length], &settings), None, "{name} {length}");
        }
    }
}

#[test]
fn file_that_is_something_else_is_an_error_that_says_so() {
    let settings = settings(vec![("x", DataType::Int32)]);
    for (bytes, reason) in [
        (&b""[..], "it is empty"),
        (b"PAR1", "does not begin with ORC"),
        (b"ORC", "cut off"),
        (b"ORC and a text that goes on", "cut off"),
    ] {
        let error = read(bytes, &settings).unwrap_err().to_string();
        assert!(
            error.contains(reason) && error.contains("dir/f.orc"),
            "{error}"
        );
    }
}

/// Every byte of a small file, changed in three ways.
#[test]
fn one_byte_that_changed_anywhere_never_panics() {
    for name in ["types-zlib.orc", "types-snappy.orc", "old.orc"] {
        let whole = bytes_of(name);
        let settings = DecodeSettings::new(&schema_of(&whole));
        let mut refused = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= [0x01, 0x80, 0xFF][at % 3];
            match rows(&bytes, &settings) {
                Some(rows) => assert_eq!(rows, 60, "{name} {at}"),
                None => refused += 1,
            }
        }
        assert!(
            refused > whole.len() / 4,
            "{name}: {refused} of {}",
            whole.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn bytes_that_changed_never_panic(
        file in prop::sample::select(vec!["types-uncompressed.orc", "types-lz4.orc", "types-zstd.orc", "many.orc"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        from_end in any::<bool>(),
    ) {
        let mut bytes = bytes_of(file);
        let settings = DecodeSettings::new(&schema_of(&bytes));
        let most = if file == "many.orc" { 12_000 } else { 60 };
        for (index, byte) in changes {
            // Half of the changes hit the footers, where sizes stand.
            let at = match from_end {
                true => bytes.len() - 1 - index.index(1500),
                false => index.index(bytes.len()),
            };
            bytes[at] = byte;
        }
        if let Some(rows) = rows(&bytes, &settings) {
            prop_assert!(rows <= most, "{} rows", rows);
        }
    }
}
