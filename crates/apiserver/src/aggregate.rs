//! Other API servers behind this one: an APIService with a `service` makes that Service's server answer for a version of a group.
//!
//! ```text
//! APIService → [registered]: a part of the catalogue
//!   request  → chain (who, flow, may they?) → [proxy]: streamed to the server, with the user's name in headers
//!   [keeper]: one task a server → [availability]: its condition
//!                               → [discovery], [openapi]: what it says that it serves, merged into this server's documents
//! ```
//!
//! - The other server believes who the user is because of this server's certificate ([`crate::pki::FrontProxy`]); a client's own
//!   headers of these names never reach it.
//! - What it says about itself is read as a stranger's: bounded in size and time, checked against the types that clients
//!   expect, and only about the versions that are registered for it.

mod availability;
mod discovery;
mod identity;
mod keeper;
mod openapi;
mod proxy;
mod registered;

pub use identity::identify;
pub use keeper::run;
pub use openapi::Documents;
pub(crate) use openapi::{merge, newer};
pub use proxy::pass;
pub use registered::{Reference, Registered, Registrations, Told};

use crate::ApiServer;
use crate::authn::User;
use crate::outbound::Failure;
use crate::pki::Identity;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use std::sync::Arc;
use std::time::Duration;

/// How long a request about what is served may take.
const DISCOVERY: Duration = Duration::from_secs(5);

/// What this server shows to other API servers.
#[derive(Default)]
pub struct FrontProxyIdentity(ArcSwapOption<Identity>);

impl FrontProxyIdentity {
    /// Set before the first request: destinations are made with it.
    pub fn set(&self, identity: Identity) {
        self.0.store(Some(Arc::new(identity)));
    }

    fn get(&self) -> Option<Arc<Identity>> {
        self.0.load_full()
    }
}

/// Asks another API server for a whole document, as this server itself.
async fn ask(
    server: &ApiServer,
    registered: &Registered,
    (path, accept): (&str, &str),
    user: &User,
    limit: Duration,
) -> Result<Response<Bytes>, Failure> {
    let destination = registered.destination(&server.front_proxy).map_err(|why| Failure::Tls(why.to_owned()))?;
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| Failure::Http(error.to_string()))?;
    let accept = HeaderValue::from_str(accept).map_err(|error| Failure::Http(error.to_string()))?;
    request.headers_mut().insert(header::ACCEPT, accept);
    identify(request.headers_mut(), user).map_err(|why| Failure::Http(why.to_owned()))?;
    server.registry.outbound.ask(&server.registry, destination, request, limit).await
}
