//! The bytes of an ORC file: never more than there are, whatever the file says.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use bytes::Bytes;

/// An open file and its length.
pub(super) struct Input {
    file: File,
    length: u64,
}

impl Input {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// `length` bytes from `offset` on.
    pub(super) fn get(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        let is_inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        let (true, Ok(size)) = (is_inside, usize::try_from(length)) else {
            let reason = format!(
                "it has {} bytes and tells of {length} at byte {offset}",
                self.length
            );
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        };
        let mut bytes = vec![0; size];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}
