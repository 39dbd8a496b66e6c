//! The short hashes in the names of ReplicaSets and ControllerRevisions.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Kubernetes' alphabet for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// The hash of a Pod template that names its ReplicaSet, or its DaemonSet's revision. The same template and collision count
/// give the same hash, whatever process asks. Two templates may share one: then the count is raised.
pub fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    // Objects serialize with fields and map keys in one order, so the bytes are canonical.
    let bytes = serde_json::to_vec(template).unwrap_or_default();
    let fnv1a = |seed: u32, bytes: &[u8]| {
        bytes.iter().fold(seed, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
    };
    let hash = fnv1a(FNV_OFFSET, &bytes);
    encoded(collisions.map_or(hash, |collisions| fnv1a(hash, &collisions.to_le_bytes())))
}

/// The hash of a ControllerRevision's data, as Kubernetes' own controllers compute it: FNV-1 over the text of the data and the
/// decimal digits of the collision count.
pub fn revision_hash(data: &[u8], collisions: Option<i32>) -> String {
    let digits = collisions.map(|collisions| collisions.to_string()).unwrap_or_default();
    let bytes = data.iter().chain(digits.as_bytes());
    encoded(bytes.fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(*byte)))
}

/// The digits of a number as letters that spell no words.
fn encoded(hash: u32) -> String {
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_of_the_program_finds_its_replica_sets_again() {
        let template = PodTemplateSpec::default();
        let hash = template_hash(&template, None);
        assert_eq!(hash, template_hash(&template, None));
        assert_ne!(hash, template_hash(&template, Some(1)));
        assert!(hash.bytes().all(|letter| ALPHABET.contains(&letter)), "{hash}");
    }

    #[test]
    fn a_revision_has_the_name_that_upstream_gives_it() {
        // FNV-1 of nothing is the offset, 2166136261.
        assert_eq!(revision_hash(b"", None), "65bb57b6b5");
        assert_ne!(revision_hash(b"a", Some(0)), revision_hash(b"a", None), "a count of zero counts");
        assert_eq!(revision_hash(b"a0", None), revision_hash(b"a", Some(0)));
    }
}
