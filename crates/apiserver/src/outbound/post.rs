//! One question as JSON: what a request to a webhook or a reviewer has in common.

use super::endpoint::Login;
use super::{Destination, Failure, Outbound};
use crate::registry::Registry;
use bytes::Bytes;
use http::{Request, Response, header};
use std::io;
use std::time::Duration;

pub(super) struct Post<'a> {
    pub(super) to: &'a Destination,
    /// Path and query.
    pub(super) path: &'a str,
    pub(super) agent: &'static str,
    pub(super) login: &'a Login,
    pub(super) limit: Duration,
}

/// Why there is no answer at all.
pub(super) enum Unsent {
    /// What is configured makes no request.
    Malformed(http::Error),
    TokenFile {
        path: String,
        why: io::Error,
    },
    Transport(Failure),
}

impl Post<'_> {
    /// Sends the body and reads the whole answer. A Service is found only with a registry.
    pub(super) async fn send(
        &self,
        outbound: &Outbound,
        registry: Option<&Registry>,
        body: Bytes,
    ) -> Result<Response<Bytes>, Unsent> {
        let mut request = Request::post(self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, self.agent);
        let login = self.login.value().await;
        if let Some(login) = login.map_err(|(path, why)| Unsent::TokenFile { path: path.display().to_string(), why })? {
            request = request.header(header::AUTHORIZATION, login);
        }
        let request = request.body(body).map_err(Unsent::Malformed)?;
        outbound.exchange(registry, self.to, request, self.limit).await.map_err(Unsent::Transport)
    }
}
