//! The order in which every request passes every filter, in one place.
//!
//! ```text
//! guard (panics, metrics) → parse → authenticate → authorize → fence → serve or verbs → warnings
//! ```

use crate::ApiServer;
use crate::authn::{self, User};
use crate::authz::Attributes;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::fence::Fence;
use crate::request::{Query, Request, Target};
use crate::response::{self, Wanted};
use crate::{serve, verbs};
use futures::FutureExt;
use http::{HeaderMap, Method, Response};
use pintle_meta::Status;
use pintle_meta::labels::FieldSelector;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

impl ApiServer {
    /// Answers one request. Whatever happens inside, there is an answer, and no other request notices.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let started = Instant::now();
        let head = request.method == Method::HEAD;
        let query = Query::parse(request.uri.query().unwrap_or_default());
        let target = Target::parse(&request.method, request.uri.path(), &query);
        let (verb, resource) = (target.verb, target.resource.as_ref().map(|r| r.resource.clone()).unwrap_or_default());
        let answer = AssertUnwindSafe(self.filter(request, target, query)).catch_unwind().await;
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => response::failure(&status),
            Err(_) => {
                tracing::error!(verb, resource, "a request panicked; this is a bug, please report it");
                response::failure(&Status::internal("the server has a bug that this request met; see its log"))
            }
        };
        self.metrics.request(verb, &resource, response.status().as_u16(), started.elapsed());
        if head {
            *response.body_mut() = Body::empty();
        }
        response
    }

    async fn filter(&self, request: Request, target: Target, query: Query) -> Result<Response<Body>, Status> {
        let user = self.admit(&request, &target).await?;
        self.custom.follow(&self.registry).await;
        let wanted = Wanted::from(&request.headers);
        let Some(path) = target.resource else {
            // Plain paths answer in their own notation, whatever is asked for.
            let wanted = wanted.unwrap_or(Wanted { shape: response::Shape::Object, yaml: false });
            let answer = serve::dispatch(self, &request.method, &target.path, &query, &request.headers, wanted).await?;
            return Ok(response::unless_known(answer, &request.headers));
        };
        if serve::usage::is_served(self, &path) {
            return serve::usage::answer(self, target.verb, &path, &query, wanted?).await;
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
        let fence = Fence::check(self, &user, target.verb, &request.headers).await?;
        let mut exchange = Exchange {
            verb: target.verb,
            resource: resource.clone(),
            path,
            query,
            headers: request.headers,
            body: request.body,
            user,
            fence,
            wanted: wanted?,
            warnings: Vec::new(),
            upgrade: request.upgrade,
        };
        let asked = exchange.path.subresource.is_empty();
        exchange.warnings.extend(resource.strategy.deprecation().filter(|_| asked).map(str::to_owned));
        let result = verbs::dispatch(self, target.verb, &mut exchange).await;
        let mut response = result.unwrap_or_else(|status| response::failure(&status));
        response::warn(&mut response, &exchange.warnings);
        Ok(response)
    }

    /// Who asks, and whether they may. What is served beside this server stands behind the same door.
    pub async fn admit(&self, request: &Request, target: &Target) -> Result<User, Status> {
        let user = authn::authenticate(&self.tokens, &request.peer, &request.headers).await?;
        let user = self.impersonate(user, &request.headers).await?;
        let fields = FieldSelector::parse(&target.fields).unwrap_or_default();
        self.authorizer.authorize(&user, &attributes(target, &fields)).await?;
        Ok(user)
    }

    /// Acting as somebody else, for those who may.
    async fn impersonate(&self, user: User, headers: &HeaderMap) -> Result<User, Status> {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let Some(name) = text("impersonate-user") else {
            let unnamed = headers.contains_key("impersonate-group") || headers.contains_key("impersonate-uid");
            return if unnamed {
                Err(Status::bad_request("requested groups or a UID without impersonating a user"))
            } else {
                Ok(user)
            };
        };
        let may = |resource: &'static str, name: String| {
            let user = &user;
            async move {
                let attributes = Attributes { verb: "impersonate", resource, name: &name, ..Attributes::default() };
                self.authorizer.authorize(user, &attributes).await
            }
        };
        may("users", name.to_owned()).await?;
        let mut groups: Vec<&str> = Vec::new();
        for group in headers.get_all("impersonate-group") {
            let group = group.to_str().map_err(|_| Status::bad_request("Impersonate-Group is not text"))?;
            may("groups", group.to_owned()).await?;
            groups.push(group);
        }
        Ok(if name == "system:anonymous" { User::anonymous() } else { User::new(name, &groups) })
    }
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
