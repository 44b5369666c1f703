//! The header that payloads of a schema registry have before a Protobuf message: a schema's id, and which of its messages it is.

use prost_reflect::MessageDescriptor;

use super::super::registry::split;

/// The message behind the header, which has to say that it is of the type `message`.
///
/// # Errors
/// A header that is none, or one of another message.
pub(super) fn body<'a>(payload: &'a [u8], message: &MessageDescriptor) -> Result<&'a [u8], String> {
    let (id, mut rest) = split(payload)?;
    let count = number(&mut rest)?;
    // A lone zero stands for the first message of the file.
    let path = match count {
        0 => vec![0],
        1..=64 => (0..count)
            .map(|_| number(&mut rest))
            .collect::<Result<_, _>>()?,
        _ => return Err(format!("a header with a path of {count} messages")),
    };
    let own = own_path(message);
    if path != own {
        return Err(format!(
            "the header says message {path:?} of schema {id}, {} is message {own:?} of its file",
            message.full_name()
        ));
    }
    Ok(rest)
}

/// The positions of a message and those around it in their file.
pub(super) fn own_path(message: &MessageDescriptor) -> Vec<i64> {
    // A path is pairs of field number and position.
    message
        .path()
        .iter()
        .skip(1)
        .step_by(2)
        .map(|at| i64::from(*at))
        .collect()
}

/// A zigzag number off the front of `bytes`.
fn number(bytes: &mut &[u8]) -> Result<i64, String> {
    let raw = prost_reflect::prost::encoding::decode_varint(bytes)
        .map_err(|e| format!("the header: {e}"))?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}
