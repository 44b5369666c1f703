//! Every codec there and back, cut off, and damaged.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use super::*;

const ALL: [Codec; 6] = [
    Codec::Gzip,
    Codec::Deflate,
    Codec::Bzip2,
    Codec::Zstd,
    Codec::Lz4,
    Codec::Snappy,
];

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Text that compresses, but not to nothing.
fn text(lines: usize) -> Vec<u8> {
    (0..lines)
        .flat_map(|n| {
            format!(
                "{{\"id\":{n},\"hash\":{}}}\n",
                n.wrapping_mul(2_654_435_761)
            )
            .into_bytes()
        })
        .collect()
}

fn compressed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let out = Shared::default();
    let mut compressor = Compressor::new(Some(codec), Box::new(out.clone())).unwrap();
    for part in bytes.chunks(10_000) {
        compressor.write(part).unwrap();
    }
    let length = compressor.finish().unwrap();
    let bytes = out.0.lock().unwrap().clone();
    assert_eq!(length, bytes.len() as u64);
    bytes
}

fn plain(codec: Codec, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    codec
        .reader(Box::new(io::Cursor::new(bytes)))?
        .read_to_end(&mut plain)?;
    Ok(plain)
}

#[test]
fn codec_gives_back_what_it_took() {
    for codec in ALL {
        for lines in [0, 1, 20_000] {
            let bytes = text(lines);
            let small = compressed(codec, &bytes);
            assert!(lines < 2 || small.len() < bytes.len(), "{codec:?}");
            assert_eq!(plain(codec, small).unwrap(), bytes, "{codec:?} {lines}");
        }
    }
}

#[test]
fn codec_files_one_after_the_other_are_one_file() {
    for codec in [
        Codec::Gzip,
        Codec::Bzip2,
        Codec::Zstd,
        Codec::Lz4,
        Codec::Snappy,
    ] {
        let (a, b) = (text(10), text(30));
        let both = [compressed(codec, &a), compressed(codec, &b)].concat();
        assert_eq!(plain(codec, both).unwrap(), [a, b].concat(), "{codec:?}");
    }
}

#[test]
fn codec_file_that_is_cut_off_is_an_error_and_not_a_shorter_file() {
    for codec in ALL {
        let whole = compressed(codec, &text(20_000));
        for length in [whole.len() - 1, whole.len() / 2, 5] {
            assert!(
                plain(codec, whole[..length].to_vec()).is_err(),
                "{codec:?} {length}"
            );
        }
    }
}

#[test]
fn codec_garbage_is_an_error_and_takes_no_memory() {
    for codec in ALL {
        assert!(
            plain(codec, b"{\"id\":1}\n{\"id\":2}\n".to_vec()).is_err(),
            "{codec:?}"
        );
        assert!(plain(codec, vec![0xFF; 100]).is_err(), "{codec:?}");
    }
}

#[test]
fn codec_frames_of_other_programs_are_read() {
    let bytes = text(5_000);
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&bytes).unwrap();
    assert_eq!(plain(Codec::Lz4, lz4.finish().unwrap()).unwrap(), bytes);
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(&bytes).unwrap();
    assert_eq!(
        plain(Codec::Snappy, snappy.into_inner().unwrap()).unwrap(),
        bytes
    );
}

#[test]
fn codec_is_told_by_the_name() {
    let of = |name: &str| Codec::of_path(Path::new(name));
    for codec in ALL {
        assert_eq!(
            of(&format!("a.json.{}", codec.extension())),
            Ok(Some(codec))
        );
    }
    assert_eq!(of("A.GZ"), Ok(Some(Codec::Gzip)));
    assert_eq!(of("a.json"), Ok(None));
    assert_eq!(of("a.xz"), Err("xz".to_owned()));
    assert_eq!(named("UNCOMPRESSED"), Some(None));
    assert_eq!(named("bzip2"), Some(Some(Codec::Bzip2)));
    assert_eq!(named("zip"), None);
}
