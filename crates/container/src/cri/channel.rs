//! Calls to the runtime, over its Unix socket.

use std::path::Path;
use std::time::Duration;

use tonic::{Code, Status};

use crate::error::Error;
pub(super) use crate::grpc::client::Caller;

/// What upstream's agent gives most calls.
pub(super) const USUAL: Duration = Duration::from_secs(120);

/// The runtime interface does not look at it; containerd's own services keep what that made in a namespace of its own.
const NAMESPACE: (&str, &str) = ("containerd-namespace", "k8s.io");

pub(super) fn to(socket: &Path) -> Caller {
    Caller::new(socket).saying(NAMESPACE.0, NAMESPACE.1)
}

/// What a refusal says, without the parts that only matter on the wire.
pub(super) fn failed(status: Status) -> Error {
    match status.code() {
        Code::Unavailable => Error::Failed(format!("it does not answer: {}", status.message())),
        _ => Error::Failed(status.message().to_owned()),
    }
}

/// Stopping what is stopped and removing what is gone are successes.
pub(super) fn or_gone<A: Default>(answer: Result<A, Status>) -> Result<A, Error> {
    match answer {
        Err(status) if status.code() == Code::NotFound => Ok(A::default()),
        answer => answer.map_err(failed),
    }
}
