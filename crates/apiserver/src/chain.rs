//! The order in which every request passes every filter, in one place.
//!
//! ```text
//! guard (panics, metrics) → parse → authenticate → authorize → fence → serve or verbs → warnings
//! ```

use crate::ApiServer;
use crate::authn::impersonate::impersonate;
use crate::authn::{self, User};
use crate::authz::Attributes;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::fence::Fence;
use crate::request::{Query, Request, ResourcePath, Target};
use crate::response::{self, Offer, Wanted};
use crate::{serve, verbs};
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Response};
use pintle_meta::Status;
use pintle_meta::labels::FieldSelector;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

impl ApiServer {
    /// Answers one request. Whatever happens inside, there is an answer, and no other request notices.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let started = Instant::now();
        let head = request.method == Method::HEAD;
        let errors_in = Wanted::for_errors(&request.headers);
        let query = Query::parse(request.uri.query().unwrap_or_default());
        let target = Target::parse(&request.method, request.uri.path(), &query);
        let (verb, path) = (target.verb, target.resource.clone());
        let answer = AssertUnwindSafe(self.filter(request, target, query)).catch_unwind().await;
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => response::failure_in(errors_in, &status),
            Err(_) => {
                tracing::error!(verb, ?path, "a request panicked; this is a bug, please report it");
                response::failure_in(
                    errors_in,
                    &Status::internal("the server has a bug that this request met; see its log"),
                )
            }
        };
        // A path that somebody made up must not become a label.
        let known = path.filter(|path| self.serves(path)).map(|path| path.resource).unwrap_or_default();
        self.metrics.request(verb, &known, response.status().as_u16(), started.elapsed());
        if head {
            *response.body_mut() = Body::empty();
        }
        response
    }

    async fn filter(&self, request: Request, target: Target, query: Query) -> Result<Response<Body>, Status> {
        let user = self.admit(&request, &target).await?;
        if let Some(connection) = request.connection.as_ref().filter(|_| user.name != authn::ANONYMOUS) {
            connection.is_known();
        }
        self.custom.follow(&self.registry).await;
        let Some(path) = target.resource else {
            // Plain paths answer in their own notation, whatever is asked for.
            let wanted = Wanted::negotiate(&request.headers, Offer::DISCOVERY).unwrap_or(Wanted::JSON);
            let answer = serve::dispatch(self, &request.method, &target.path, &query, &request.headers, wanted).await?;
            return Ok(response::unless_known(answer, &request.headers));
        };
        if serve::usage::is_served(self, &path) {
            return serve::usage::answer(
                self,
                target.verb,
                &path,
                &query,
                Wanted::negotiate(&request.headers, Offer::TEXT)?,
            )
            .await;
        }
        let catalogue = self.registry.catalogue.load_full();
        let Some(resource) = catalogue.get(&path.group, &path.version, &path.resource) else {
            let known = catalogue.of_group_version(&path.group, &path.version).next().is_some();
            return if known {
                Err(Status::no_such_resource())
            } else {
                Ok(response::text(404, "404 page not found\n"))
            };
        };
        // Access was decided in the namespace of the path: what is outside of every namespace is not served through one,
        // nor is any of its subresources.
        if path.in_namespace && !resource.namespaced {
            return Err(Status::no_such_resource());
        }
        // Only now: nobody makes the server hold bodies by asking for what they may not.
        let body = if has_body(target.verb) { request.body.read().await? } else { Bytes::new() };
        let wanted = Wanted::negotiate(&request.headers, Offer::of(resource));
        let fence = Fence::check(self, &user, target.verb, &request.headers).await?;
        let mut exchange = Exchange {
            verb: target.verb,
            resource: resource.clone(),
            path,
            query,
            headers: request.headers,
            body,
            user,
            fence,
            wanted: wanted?,
            warnings: Vec::new(),
            upgrade: request.upgrade,
        };
        let asked = exchange.path.subresource.is_empty();
        exchange.warnings.extend(resource.strategy.deprecation().filter(|_| asked).map(str::to_owned));
        let result = verbs::dispatch(self, target.verb, &mut exchange).await;
        let mut response =
            result.unwrap_or_else(|status| response::failure_in(Wanted::for_errors(&exchange.headers), &status));
        response::warn(&mut response, &exchange.warnings);
        Ok(response)
    }

    fn serves(&self, path: &ResourcePath) -> bool {
        serve::usage::is_served(self, path)
            || self.registry.catalogue.load().get(&path.group, &path.version, &path.resource).is_some()
    }

    /// Who asks, and whether they may. What is served beside this server stands behind the same door.
    pub async fn admit(&self, request: &Request, target: &Target) -> Result<User, Status> {
        let user = authn::authenticate(&self.tokens, &request.peer, &request.headers).await?;
        let user = impersonate(&self.authorizer, user, &request.headers).await?;
        let fields = FieldSelector::parse(&target.fields).unwrap_or_default();
        self.authorizer.authorize(&user, &attributes(target, &fields)).await?;
        Ok(user)
    }
}

/// Reads take no body; what a client sends with one stays unread.
fn has_body(verb: &str) -> bool {
    !matches!(verb, "get" | "list" | "watch" | "")
}

fn attributes<'a>(target: &'a Target, fields: &'a FieldSelector) -> Attributes<'a> {
    match &target.resource {
        Some(path) => Attributes {
            verb: target.verb,
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: &path.namespace,
            // Who lists the one object of a name asks for that object.
            name: match target.verb {
                "list" | "watch" | "deletecollection" => fields.required("metadata.name").unwrap_or_default(),
                _ => &path.name,
            },
            fields: Some(fields),
            path: None,
        },
        None => Attributes { verb: target.verb, path: Some(&target.path), ..Attributes::default() },
    }
}
