//! A hash that is the same on every machine and in every run: FNV-1a of 64 bits. Not for what strangers choose to collide.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

pub fn stable(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_by_its_hash_keeps_its_name() {
        assert_eq!(stable(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
