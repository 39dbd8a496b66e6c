//! The hash of a Pod template that names its ReplicaSet.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Kubernetes' alphabet for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The same template and collision count give the same hash, whatever process asks. Two templates may share one: then
/// the count is raised.
pub(super) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    // Objects serialize with fields and map keys in one order, so the bytes are canonical.
    let bytes = serde_json::to_vec(template).unwrap_or_default();
    let mut hash = fnv1a(0x811c_9dc5, &bytes);
    if let Some(collisions) = collisions {
        hash = fnv1a(hash, &collisions.to_le_bytes());
    }
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

fn fnv1a(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
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
}
