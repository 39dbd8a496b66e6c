//! What can go wrong in a runtime.

/// Why the runtime could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no {kind} {id:?}")]
    NotFound { kind: &'static str, id: String },
    #[error("container {id:?} is {state}; it must be {wanted}")]
    WrongState { id: String, state: &'static str, wanted: &'static str },
    #[error("{0}")]
    PullFailed(String),
    #[error("no address is left on this node")]
    NoAddress,
    #[error("this container runtime cannot {0}")]
    Unsupported(&'static str),
    #[error("the container runtime failed: {0}")]
    Failed(String),
}

impl Error {
    /// What the runtime itself said, for the status of a container: there it is clear whose words they are.
    pub fn detail(&self) -> String {
        match self {
            Error::Failed(message) | Error::PullFailed(message) => message.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn no_container(id: &str) -> Self {
        Error::NotFound { kind: "container", id: id.to_owned() }
    }

    pub(crate) fn no_sandbox(id: &str) -> Self {
        Error::NotFound { kind: "sandbox", id: id.to_owned() }
    }
}
