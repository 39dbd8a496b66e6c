//! Protobuf messages by their grammar: tags, lengths, and messages in messages.

use crate::mutate::Mutator;

/// The envelope of an object.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut about = Vec::new();
    bytes(&mut about, 1, api_version.as_bytes());
    bytes(&mut about, 2, kind.as_bytes());
    let mut out = b"k8s\0".to_vec();
    bytes(&mut out, 1, &about);
    bytes(&mut out, 2, raw);
    out
}

/// Metadata with a name, then whatever comes.
pub fn message(mutator: &Mutator<'_>) -> Vec<u8> {
    let mut metadata = Vec::new();
    bytes(&mut metadata, 1, format!("p{}", mutator.random.below(1_000_000)).as_bytes());
    let mut out = Vec::new();
    bytes(&mut out, 1, &metadata);
    out.extend(fields(mutator, 0));
    out
}

fn fields(mutator: &Mutator<'_>, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..mutator.random.below(5) {
        let tag = 1 + mutator.random.below(30);
        match mutator.random.below(8) {
            0 => {
                varint(&mut out, tag << 3);
                varint(&mut out, mutator.random.next() >> mutator.random.below(64));
            }
            1 => {
                varint(&mut out, tag << 3 | 1);
                out.extend(mutator.random.next().to_le_bytes());
            }
            2 => {
                varint(&mut out, tag << 3 | 5);
                out.extend(&mutator.random.next().to_le_bytes()[..4]);
            }
            3 => bytes(&mut out, tag, mutator.word().as_bytes()),
            4 => bytes(&mut out, tag, mutator.odd().to_string().as_bytes()),
            _ if depth < 6 => bytes(&mut out, tag, &fields(mutator, depth + 1)),
            _ => {}
        }
    }
    out
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    varint(out, tag << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
