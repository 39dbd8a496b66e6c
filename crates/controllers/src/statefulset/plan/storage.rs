//! The claims of one Pod: which are missing, which are on their way out, which have the wrong owners.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use pintle_runtime::Write;
use pintle_runtime::plan::Note;
use serde_json::json;

use super::Facts;
use super::identity::{claims_of, name_of};
use super::retention::{self, Holder};

/// What is there of a Pod's claims, and what is to be.
pub(super) struct Storage {
    /// To be made.
    pub(super) missing: Vec<PersistentVolumeClaim>,
    /// The names of those that are on their way out: no Pod can be made with them.
    pub(super) going: Vec<String>,
    /// Those that belong to an earlier Pod of the same name.
    pub(super) has_stale: bool,
    /// Those whose owners are to be these.
    pub(super) misowned: Vec<(Arc<PersistentVolumeClaim>, Vec<OwnerReference>)>,
    /// The names of those that somebody else manages.
    conflicting: Vec<String>,
}

impl Storage {
    pub(super) fn of(facts: &Facts<'_>, ordinal: i64, holder: &Holder<'_>) -> Self {
        let (mut missing, mut going, mut misowned) = (Vec::new(), Vec::new(), Vec::new());
        let (mut has_stale, mut conflicting) = (false, Vec::new());
        for mut wanted in claims_of(facts.set, ordinal) {
            let name = wanted.metadata.name.clone().unwrap_or_default();
            let Some(claim) = (facts.claim)(&name) else {
                wanted.metadata.owner_references = retention::first_owners(facts.set);
                missing.push(wanted);
                continue;
            };
            has_stale |= retention::goes_when_scaled(facts.set) && retention::is_stale(&claim, holder);
            if retention::has_unexpected_controller(&claim, facts.set, holder) {
                conflicting.push(name.clone());
            }
            if let Some(owners) = retention::owners_to_write(&claim, facts.set, holder) {
                misowned.push((claim.clone(), owners));
            }
            if claim.metadata.deletion_timestamp.is_some() {
                going.push(name);
            }
        }
        Storage { missing, going, has_stale, misowned, conflicting }
    }

    /// Makes what is missing, for this Pod.
    pub(super) fn creations(&self, facts: &Facts<'_>, pod: &str) -> Vec<Write> {
        let set = name_of(facts.set);
        let creation = |claim: &PersistentVolumeClaim| {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            Write::create(claim)
                .saying("SuccessfulCreate", format!("Create Claim {name} Pod {pod} in StatefulSet {set} success"))
                .warning(
                    "FailedCreate",
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {{error}}"),
                )
        };
        self.missing.iter().map(creation).collect()
    }

    /// Gives claims their owners, if nobody has written them since.
    pub(super) fn ownership(&self) -> Vec<Write> {
        let patch = |(claim, owners): &(Arc<PersistentVolumeClaim>, Vec<OwnerReference>)| {
            Write::merge_at_version(claim.as_ref(), json!({"metadata": {"ownerReferences": owners}}))
        };
        self.misowned.iter().map(patch).collect()
    }

    /// What the user should know about claims that somebody else manages.
    pub(super) fn conflicts(&self) -> impl Iterator<Item = Note> {
        self.conflicting.iter().map(|name| {
            Note::warning(
                "ConflictingController",
                // The spelling is upstream's.
                format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                ),
            )
        })
    }
}
