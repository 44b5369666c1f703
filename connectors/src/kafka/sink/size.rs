//! How many bytes a message takes on the broker, which is what a topic's `max.message.bytes` limits.
//!
//! The limit is on a batch of messages as it travels, and a message too large for it is one whose batch would be too large if
//! it travelled alone, before compression.

/// Fixed part of a batch of messages (message format 2).
const BATCH_OVERHEAD: usize = 61;
/// Attributes of a message, and its time and offset relative to the batch, both 0 in a batch of one.
const RECORD_OVERHEAD: usize = 3;

/// What a broker accepts at most unless it is told otherwise (`message.max.bytes`).
pub(super) const DEFAULT_LIMIT: usize = 1_048_588;

/// Bytes of the headers of a message: names and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeaderBytes {
    count: usize,
    bytes: usize,
}

impl HeaderBytes {
    /// Adds one header.
    pub(super) fn add(&mut self, name: &str, value: Option<&[u8]>) {
        self.count += 1;
        self.bytes += counted(Some(name.len())) + counted(value.map(<[u8]>::len));
    }
}

/// Bytes of a batch of one message, uncompressed. `None` is a null, which is shorter than an empty value by nothing.
pub(super) fn batch_bytes(key: Option<&[u8]>, value: Option<&[u8]>, headers: HeaderBytes) -> usize {
    let body = RECORD_OVERHEAD
        + counted(key.map(<[u8]>::len))
        + counted(value.map(<[u8]>::len))
        + varint(headers.count)
        + headers.bytes;
    BATCH_OVERHEAD + varint(body) + body
}

/// A length and so many bytes; a null is the length -1.
fn counted(length: Option<usize>) -> usize {
    length.map_or(1, |length| varint(length) + length)
}

/// Bytes of a number from 0 as the protocol writes signed numbers: 7 bits of twice the number in each.
fn varint(number: usize) -> usize {
    let mut doubled = (number as u64) << 1;
    let mut bytes = 1;
    while doubled >= 0x80 {
        doubled >>= 7;
        bytes += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_one_more_byte_from_64_and_from_8192() {
        assert_eq!([0, 63, 64, 8191, 8192].map(varint), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn a_batch_of_one_message_counts_nulls_values_and_headers() {
        let nothing = HeaderBytes::default();
        // 61 + length 1 + (3 + key 1 + value 1 + headers 1)
        assert_eq!(batch_bytes(None, None, nothing), 68);
        assert_eq!(batch_bytes(Some(b""), Some(b""), nothing), 68);
        assert_eq!(batch_bytes(Some(b"k"), Some(b"value"), nothing), 74);
        let mut headers = HeaderBytes::default();
        headers.add("trace", Some(b"ab"));
        headers.add("n", None);
        assert_eq!(batch_bytes(None, None, headers), 68 + 9 + 3);
    }
}
