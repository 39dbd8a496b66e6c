//! Chance, passed in: a seeded source that gives the same run for the same seed.
//!
//! Not for keys or secrets: those come from the cryptography library.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kubernetes' alphabet for generated names: no vowels, so no words; no 0, 1 or 3, so no misreading.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of numbers. Clones share it.
#[derive(Clone, Debug)]
pub struct Random(Arc<AtomicU64>);

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Random(Arc::new(AtomicU64::new(seed)))
    }

    /// A source of its own that gives the numbers this one would give from here on.
    #[must_use]
    pub fn fork(&self) -> Self {
        Random::seeded(self.0.load(Ordering::Relaxed))
    }

    /// Seeded by the operating system.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for a seed")]
    pub fn system() -> Self {
        Random::seeded(std::collections::hash_map::RandomState::new().build_hasher().finish())
    }

    /// SplitMix64: one atomic add a number, good enough for names, jitter and identities.
    pub fn next(&self) -> u64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// The random end of a generated name.
    pub fn suffix(&self, length: usize) -> String {
        (0..length).map(|_| char::from(ALPHABET[self.below(ALPHABET.len() as u64) as usize])).collect()
    }

    /// A version 4 UUID.
    pub fn uid(&self) -> String {
        let high = (self.next() & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
        let low = (self.next() & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xFFFF,
            high & 0xFFFF,
            low >> 48,
            low & 0xFFFF_FFFF_FFFF
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!(a.suffix(5), b.suffix(5));
        assert_eq!(a.uid(), b.uid());
        assert_ne!(a.uid(), a.uid());
    }

    #[test]
    fn a_fork_goes_on_alike_and_leaves_the_other_alone() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        a.next();
        b.next();
        let fork = a.fork();
        assert_eq!([fork.next(), fork.next()], [b.next(), b.next()]);
        let again = Random::seeded(7);
        again.next();
        assert_eq!(a.next(), again.next());
    }

    #[test]
    fn a_uid_is_a_version_4_uuid() {
        let uid = Random::seeded(1).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let random = Random::seeded(3);
        assert!((0..1000).all(|_| random.below(27) < 27));
        assert_eq!(random.below(0), 0);
    }
}
