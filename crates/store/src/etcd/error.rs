//! Why etcd could not be connected to, and why one call to it failed.

use std::error::Error;

use tonic::{Code, Status};

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no endpoint of etcd was given; write etcd://host:2379")]
    NoEndpoint,
    #[error("the endpoint {endpoint:?} of etcd is not host:port: {reason}")]
    Endpoint { endpoint: String, reason: String },
    #[error(
        "no authority was given to check the certificates of etcd at {endpoints} with; name the file that holds etcd's CA"
    )]
    NoAuthority { endpoints: String },
    #[error(
        "the certificates for etcd at {endpoints} cannot be used: {reason}; they must be PEM, and the key must fit"
    )]
    Tls { endpoints: String, reason: String },
    #[error(
        "etcd at {endpoints} did not answer within {seconds} s; is it running there, and does it speak {protocol}? The last attempt: {reason}"
    )]
    NoAnswer { endpoints: String, seconds: u64, protocol: &'static str, reason: String },
    #[error("etcd at {endpoints} refuses us: {reason}")]
    Refused { endpoints: String, reason: String },
}

/// One call that failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: Code,
    /// What etcd or the connection says.
    pub(super) message: String,
    /// Which member was asked.
    pub(super) endpoint: String,
    /// Whether it is certain that etcd did nothing.
    pub(super) unsent: bool,
}

impl Failure {
    pub(super) fn new(endpoint: &str, status: &Status) -> Self {
        let message = describe(status);
        let unsent = is_connect_error(status) || DID_NOTHING.iter().any(|known| message.contains(known));
        Self { code: status.code(), message, endpoint: endpoint.to_owned(), unsent }
    }

    pub(super) fn timed_out(endpoint: &str, seconds: f32) -> Self {
        let message = format!("no answer within {seconds:.1} s");
        Self { code: Code::DeadlineExceeded, message, endpoint: endpoint.to_owned(), unsent: false }
    }

    pub(super) fn reason(&self) -> String {
        format!("etcd at {}: {}", self.endpoint, self.message)
    }

    /// Whether another member, or the same a moment later, may answer.
    pub(super) fn is_passing(&self) -> bool {
        let passing = [Code::Unavailable, Code::DeadlineExceeded, Code::Unknown, Code::Cancelled, Code::Internal];
        self.unsent || passing.contains(&self.code)
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.code, Code::PermissionDenied | Code::Unauthenticated)
    }

    pub(super) fn says(&self, words: &str) -> bool {
        self.message.contains(words)
    }
}

/// Answers of etcd by which it has proposed nothing to its peers.
const DID_NOTHING: [&str; 2] = ["etcdserver: no leader", "etcdserver: too many requests"];

/// tonic marks what went wrong before there was a connection to send on.
fn is_connect_error(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<tonic::ConnectError>())
}

/// The message, and the innermost cause if it says more: "Connection refused" and the like.
fn describe(status: &Status) -> String {
    let message = if status.message().is_empty() { status.code().description() } else { status.message() };
    match causes(status).last().map(ToString::to_string) {
        Some(cause) if !message.contains(&cause) => format!("{message} ({cause})"),
        _ => message.to_owned(),
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}
