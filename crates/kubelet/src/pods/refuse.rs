//! What is said and remembered of a container that could not be made or started.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use super::tally::count;
use super::{Memory, Pods, Seat};
use crate::plan::{Refusal, after};

/// How soon a container is tried again that could not be made.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How long a failed start is shown as such; from then on the run that could not be started counts like one that ended.
const FRESH_FAILURE: Duration = Duration::from_secs(1);

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// What the container is made from could not be put together.
    Config,
    Create,
    Start,
}

impl Pods {
    /// Says why in an event, and keeps it for the container's status.
    pub(super) fn refuse(
        &self,
        seat: &Seat,
        memory: &mut Memory,
        involved: &ObjectReference,
        container: &str,
        stage: Stage,
        message: String,
    ) {
        count(&seat.home.tallies.container_errors);
        seat.home.recorder.record(involved, "Warning", "Failed", format!("Error: {message}"));
        let (reason, wait) = match stage {
            Stage::Config => ("CreateContainerConfigError", TRY_AGAIN),
            Stage::Create => ("CreateContainerError", TRY_AGAIN),
            Stage::Start => ("RunContainerError", FRESH_FAILURE),
        };
        let refusal = Refusal { reason, message, until: after(self.now(), wait) };
        memory.attachment.refusals.insert(container.to_owned(), refusal);
    }
}
