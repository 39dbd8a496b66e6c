//! The order in which every request passes every filter, in one place.
//!
//! ```text
//! guard (panics, metrics) → parse → deadline → authenticate → impersonate → flow control → authorize → another API server
//!   → body → fence → serve, backend or verbs → warnings
//! ```

use crate::ApiServer;
use crate::aggregate;
use crate::authn::impersonate::impersonate;
use crate::authn::{self, User};
use crate::authz::Refused;
use crate::body::Body;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::deadline;
use crate::fence::Fence;
use crate::notes::Notes;
use crate::request::{Peer, Request, Sent, Target};
use crate::response::{self, Offer, Wanted};
use crate::{serve, verbs};
use futures::FutureExt;
use http::{HeaderMap, Method, Response, header};
use pintle_meta::Status;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

impl ApiServer {
    /// Answers one request. Whatever happens inside, there is an answer, and no other request notices.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let notes = Notes::new();
        let head = request.method == Method::HEAD;
        let accept = request.headers.get(header::ACCEPT).cloned();
        let target = Target::parse(&request.method, &request.uri);
        let verb = target.verb.clone();
        // The label of a metric is a resource that is served, never a path that somebody made up.
        let mut served = None;
        let limit = deadline::limit(&target);
        let answer = deadline::within(limit, self.filter(request, target, &notes, &mut served));
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        let failure = |status: &Status| response::failure_in(Wanted::for_errors(accept.as_ref()), status);
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => failure(&status),
            Err(_) => {
                let resource = served.as_ref().map_or("", |resource: &Arc<Resource>| &resource.name);
                tracing::error!(verb = verb.as_str(), resource, "a request panicked; this is a bug, please report it");
                failure(&Status::internal("the server has a bug that this request met; see its log"))
            }
        };
        notes.tell(&mut response);
        self.metrics.request(&verb, served.as_deref(), response.status().as_u16(), notes.began.elapsed());
        if head {
            *response.body_mut() = Body::empty();
        }
        response
    }

    async fn filter(
        &self,
        mut request: Request,
        target: Target,
        notes: &Notes,
        served: &mut Option<Arc<Resource>>,
    ) -> Result<Response<Body>, Status> {
        let catalogue = self.registry.catalogue.current().await;
        *served = catalogue.get(&target.path.group, &target.path.version, &target.path.resource).cloned();
        let user = self.who(&request.peer, &target, &mut request.headers).await?;
        if let Some(connection) = request.connection.as_ref().filter(|_| user.name != authn::ANONYMOUS) {
            connection.is_known();
        }
        let call = Call::new(target, served.clone(), user, std::mem::take(&mut request.headers));
        // Held until the answer begins.
        let _seat = self.flow.seat(&call, notes).await?;
        match self.authorizer.authorize(&call, notes).await {
            Ok(()) => {}
            Err(Refused::Forbidden(status)) => return Err(status),
            // As Kubernetes says it: not as an object.
            Err(Refused::Undecided(why)) => {
                let uri = request.uri.path_and_query().map_or("", |path| path.as_str());
                let text = format!("Internal Server Error: {uri:?}: {why}\n");
                return Ok(response::text(500, escaped(&text)));
            }
        }
        if let Some(registered) = catalogue.registrations().at(&call.url) {
            // Rare and large: not a part of every request's state.
            return Box::pin(aggregate::pass(self, registered, &call, request)).await;
        }
        if !call.is_of_objects() {
            // Plain paths answer in their own notation, whatever is asked for.
            let wanted = Wanted::negotiate(&call.headers, Offer::DISCOVERY).unwrap_or(Wanted::JSON);
            let answer = serve::dispatch(self, &request.method, &call, wanted).await?;
            return Ok(response::unless_known(answer, &call.headers));
        }
        let Some(resource) = &call.resource else {
            let known = catalogue.of_group_version(&call.path.group, &call.path.version).next().is_some();
            return if known {
                Err(Status::no_such_resource())
            } else {
                Ok(response::text(404, "404 page not found\n"))
            };
        };
        // Access was decided in the namespace of the path: what is outside of every namespace is not served through one,
        // nor is any of its subresources.
        if call.path.in_namespace && !resource.namespaced {
            return Err(Status::no_such_resource());
        }
        // Only now: nobody makes the server hold bodies by asking for what they may not.
        let sent = Sent::of(&call, request).await?;
        Fence::check(self, &call).await?;
        if let Some(sentence) = resource.deprecation.as_deref().filter(|_| call.path.subresource.is_empty()) {
            notes.warn(sentence);
        }
        match &resource.backend {
            Some(backend) => backend.answer(self, &call, sent, notes).await,
            None => verbs::dispatch(self, &call, sent, notes).await,
        }
    }

    /// Who asks: the user that the transport or a token names, or the one that it acts as.
    async fn who(&self, peer: &Peer, target: &Target, headers: &mut HeaderMap) -> Result<Arc<User>, Status> {
        let user = self.authenticator.authenticate(peer, target, headers).await?;
        let constrained = self.gates.constrained_impersonation;
        impersonate((&self.authorizer, constrained), user, target, headers).await
    }

    /// Whether a request may pass. What is served beside this server stands behind the same door.
    pub async fn admit(&self, request: &Request) -> Result<(), Status> {
        let target = Target::parse(&request.method, &request.uri);
        let user = self.who(&request.peer, &target, &mut request.headers.clone()).await?;
        let call = Call::new(target, None, user, HeaderMap::new());
        Ok(self.authorizer.authorize(&call, &Notes::new()).await?)
    }
}

/// Nobody's browser takes a path for a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
