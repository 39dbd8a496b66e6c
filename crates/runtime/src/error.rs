//! What can go wrong in a reconcile.

/// Why a reconcile failed. It is logged with the loop and the key, and the key is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The object cannot be worked with as it stands.
    #[error("{0}")]
    Invalid(String),
    /// The cache shows what is no longer so; the next attempt looks again.
    #[error("the cache is behind the server")]
    Stale,
    /// Something outside the cluster failed.
    #[error("{0}")]
    Outside(String),
    /// Looking again will not help: the key is left alone until something changes.
    #[error("{0}")]
    Terminal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Whatever a library of the operator's own reports.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// The reconcile took longer than the controller allows.
    #[error("the reconcile did not end within {0:?}")]
    TimedOut(std::time::Duration),
    /// The reconciler panicked; the loop goes on.
    #[error("the reconciler panicked: {0}")]
    Panicked(String),
}

impl Error {
    /// An error of one's own, with its source: `fetch().await.map_err(Error::other)?`.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Other(error.into())
    }

    /// An error that trying again does not cure, such as a spec that cannot be meant.
    pub fn terminal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Terminal(error.into())
    }
}

/// Questions about what the server answered.
pub trait ApiError {
    fn is_not_found(&self) -> bool;
    fn is_conflict(&self) -> bool;
    fn is_already_exists(&self) -> bool;
    /// Whether creation was refused because the namespace is going away.
    fn is_namespace_terminating(&self) -> bool;
    /// What the server said, without the client's wrapping.
    fn server_message(&self) -> String;
}

impl ApiError for kube::Error {
    fn is_not_found(&self) -> bool {
        matches!(self, kube::Error::Api(status) if status.code == 404 || status.reason == "NotFound")
    }

    fn is_conflict(&self) -> bool {
        matches!(self, kube::Error::Api(status) if status.reason == "Conflict")
    }

    fn is_already_exists(&self) -> bool {
        matches!(self, kube::Error::Api(status) if status.reason == "AlreadyExists")
    }

    fn is_namespace_terminating(&self) -> bool {
        let kube::Error::Api(status) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    fn server_message(&self) -> String {
        match self {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// Takes "it is not there" for an answer, where that is what was wanted.
pub fn ignore_not_found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
