//! What is to become of a claim, and of a volume, from what there is.

mod claim;
mod reclaim;
mod volume;
mod writes;

pub(super) use claim::{Around, ClaimVerdict, judge_claim};
pub(super) use reclaim::{Reclaim, reclaim};
pub(super) use volume::{VolumeVerdict, holder, judge_volume, phase};
pub(super) use writes::{bound_status, completion, provisioner, unbinding, unbound_status};

/// What people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) warns: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Note {
    fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Note { warns: false, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Note { warns: true, reason, message: message.into() }
    }
}
