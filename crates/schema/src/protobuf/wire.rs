//! Protobuf's wire format: varints, tags, lengths.

use super::ProtobufError;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

/// The value of a field as it travels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Walks the fields of a message.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (i, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte & 0x80 == 0 {
                self.0 = &self.0[i + 1..];
                return Some(value);
            }
        }
        None
    }

    pub fn fixed64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Wire<'a>)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let wire = match key & 7 {
            VARINT => Wire::Number(self.varint()?),
            FIXED64 => Wire::Fixed64(self.fixed64()?),
            LENGTH_DELIMITED => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            FIXED32 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return None,
        };
        // There is no field 0.
        (key >> 3 != 0).then_some((key >> 3, wire))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(ProtobufError::MALFORMED);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::MALFORMED)
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes a varint takes.
pub(super) fn varint_length(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

pub(super) fn put_number(out: &mut Vec<u8>, tag: u32, number: u64) {
    put_varint(out, u64::from(tag << 3 | VARINT));
    put_varint(out, number);
}

pub(super) fn put_double(out: &mut Vec<u8>, tag: u32, number: f64) {
    put_varint(out, u64::from(tag << 3 | FIXED64));
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

pub(super) fn put_length(out: &mut Vec<u8>, tag: u32, length: usize) {
    put_varint(out, u64::from(tag << 3 | LENGTH_DELIMITED));
    put_varint(out, length as u64);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_length(out, tag, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes a message inside the message. Its length is known only afterwards: one byte is kept free for it, and a
/// longer length moves what was written.
pub(super) fn put_message<T, E>(
    out: &mut Vec<u8>,
    tag: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>,
) -> Result<T, E> {
    put_varint(out, u64::from(tag << 3 | LENGTH_DELIMITED));
    let place = out.len();
    out.push(0);
    let written = write(out)?;
    close_message(out, place);
    Ok(written)
}

fn close_message(out: &mut Vec<u8>, place: usize) {
    let (start, end) = (place + 1, out.len());
    let length = end - start;
    let extra = varint_length(length as u64) - 1;
    if extra > 0 {
        out.resize(end + extra, 0);
        out.copy_within(start..end, start + extra);
    }
    let mut rest = length;
    for byte in &mut out[place..place + extra] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[place + extra] = rest as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length_in_front_however_long_it_is() {
        for length in [0usize, 1, 127, 128, 300, 16_383, 16_384, 3_000_000] {
            let mut out = b"before".to_vec();
            put_message(&mut out, 3, |out| {
                out.resize(out.len() + length, 7);
                Ok::<(), ()>(())
            })
            .unwrap();
            let mut reader = Reader(&out[6..]);
            assert!(matches!(reader.next(), Some(Ok((3, Wire::Bytes(body)))) if body == vec![7; length]), "{length}");
            assert!(reader.next().is_none());
        }
    }

    #[test]
    fn the_length_of_a_varint_is_what_is_written() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1u64 << shift) - 1] {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                assert_eq!(out.len(), varint_length(number), "{number}");
                assert_eq!(Reader(&out).varint(), Some(number));
            }
        }
    }
}
