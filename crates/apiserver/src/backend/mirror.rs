//! A kind whose objects are outside of the cluster: files in a directory, rows of a database, whatever a [`Place`] is made for.
//!
//! - The place has the truth. The server's store has a copy, compared with the place before every request and from time to
//!   time, so that selectors, pages, tables, patches, apply and watches are the registry's own.
//! - A write is checked against the schema and made in the copy, then brought to the place. What the place refuses is taken back.
//! - What somebody else puts there is shown if the schema accepts it, and reported in the log if it does not.
//!
//! The kind is described by a CustomResourceDefinition, of which only `spec` counts; it is not stored anywhere.

use super::{Backend, Offered};
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::codec;
use crate::notes::Notes;
use crate::own::commit_unless_changed;
use crate::registry::{names_of, read_error};
use crate::request::Sent;
use crate::verbs;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Response;
use pintle_meta::field::Errors;
use pintle_meta::{Status, object, rules};
use pintle_store::{Event, EventKind, Expect, Op, Range, Txn};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Where the objects are. The error of each is what the client is told.
pub trait Place: Send + Sync + 'static {
    /// All that is there. Of an object only its name and its own content must be there.
    fn read(&self) -> BoxFuture<'_, Result<Vec<Value>, Status>>;

    fn write<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, Result<(), Status>>;

    /// What is gone already is no error.
    fn remove<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), Status>>;
}

/// Serves the objects of a place.
pub struct Mirror<P> {
    place: P,
    definition: Value,
    /// The copy is compared, or changed together with the place, by one at a time. Holds what is at the place and not shown, so
    /// that each is reported once.
    copying: Mutex<BTreeSet<Arc<str>>>,
}

/// What the server alone says in the metadata of an object: somebody who writes a file by hand leaves it out.
const STAMPS: [&str; 7] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
];

impl<P: Place> Mirror<P> {
    pub fn new(definition: Value, place: P) -> Self {
        Mirror { place, definition, copying: Mutex::default() }
    }

    /// Shows watches what changes at the place, until the server stops.
    pub async fn follow(&self, server: ApiServer, every: Duration) {
        loop {
            let served = server.registry.catalogue.latest();
            let own = served.of_group_version(self.group(), self.version()).next().cloned();
            if let Some(resource) = own {
                let mut odd = self.copying.lock().await;
                if let Err(status) = self.compare(&server, &resource, &mut odd).await {
                    tracing::warn!(%status, resource = resource.name, "what is outside could not be read");
                }
            }
            tokio::select! {
                biased;
                () = server.stopping() => return,
                () = tokio::time::sleep(every) => {}
            }
        }
    }

    /// Makes the copy what the place is.
    async fn compare(
        &self,
        server: &ApiServer,
        resource: &Resource,
        odd: &mut BTreeSet<Arc<str>>,
    ) -> Result<(), Status> {
        let there = self.place.read().await?;
        let page = server.registry.store.range(Range::prefix(resource.prefix.as_str())).await.map_err(read_error)?;
        let mut copied: BTreeMap<Arc<str>, _> = page.entries.iter().map(|entry| (entry.key.clone(), entry)).collect();
        let mut txn = Txn::default();
        for mut object in there {
            object::set(&mut object, &["apiVersion"], resource.api_version());
            object::set(&mut object, &["kind"], resource.kind.as_str());
            let key: Arc<str> = resource.key(object::namespace(&object), object::name(&object)).into();
            let current = copied.remove(&key);
            let old = current.map(|entry| codec::decode(&entry.value));
            if let Err(why) = complete(server, resource, &mut object, old.as_ref()) {
                // The last state that was one is shown still.
                if odd.insert(key) {
                    tracing::warn!(name = object::name(&object), why, "an object outside is not shown");
                }
                continue;
            }
            odd.remove(&key);
            // Only now: what was left out there is filled in here.
            if old.as_ref().is_some_and(|old| content(old) == content(&object)) {
                continue;
            }
            let expected = current.map_or(Expect::Absent, |entry| Expect::Revision(entry.mod_revision));
            txn.checks.push((key.clone(), expected));
            txn.ops.push(Op::Put { key, value: codec::encode(&object), expires_at: None });
        }
        for (key, entry) in copied {
            txn.checks.push((key.clone(), Expect::Revision(entry.mod_revision)));
            txn.ops.push(Op::Delete { key });
        }
        if txn.ops.is_empty() { Ok(()) } else { commit_unless_changed(server, txn).await }
    }

    async fn write(
        &self,
        server: &ApiServer,
        call: &Call,
        sent: Sent,
        (notes, odd): (&Notes, &mut BTreeSet<Arc<str>>),
    ) -> Result<Response<Body>, Status> {
        let (store, resource) = (&server.registry.store, call.resource()?);
        let mut changes = store.watch(&resource.prefix, store.revision()).map_err(read_error)?;
        let answer = verbs::dispatch(server, call, sent, notes).await?;
        while let Some(events) = changes.next().now_or_never() {
            for event in events.map_err(read_error)? {
                if let Err(status) = self.bring(resource, &event).await {
                    self.compare(server, resource, odd).await?;
                    return Err(status);
                }
            }
        }
        Ok(answer)
    }

    async fn bring(&self, resource: &Resource, event: &Event) -> Result<(), Status> {
        match event.kind {
            EventKind::Put => {
                let mut object = codec::decode(&event.entry.value);
                object::remove(&mut object, &["metadata", "resourceVersion"]);
                self.place.write(&object).await
            }
            EventKind::Delete => {
                let (namespace, name) = names_of(resource, &event.entry.key);
                self.place.remove(namespace, name).await
            }
        }
    }
}

/// What an object says, without who wrote it.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    STAMPS.iter().for_each(|stamp| _ = object::remove(&mut content, &["metadata", stamp]));
    content
}

/// Adds what the server alone says; what was said before stays. The error says why the object is none of the kind.
fn complete(server: &ApiServer, resource: &Resource, object: &mut Value, old: Option<&Value>) -> Result<(), String> {
    let problems = resource.strategy.name_problems(object::name(object));
    if object::name(object).is_empty() || !problems.is_empty() {
        return Err(format!("{:?} is no name: {}", object::name(object), problems.join(", ")));
    }
    if resource.namespaced == object::namespace(object).is_empty() {
        return Err("it is in a namespace, or is not, unlike its kind".to_owned());
    }
    resource.default(object).map_err(|status| status.message)?;
    let mut errors = Errors::new();
    resource.check(object, old, &mut errors);
    if let Some(error) = errors.first() {
        return Err(error.to_string());
    }
    let (said, status) = (object["metadata"].clone(), object.get("status").cloned());
    server.registry.dress_new(resource, object);
    // It is no new object, even if it is new here.
    if let Some(status) = status {
        object["status"] = status;
    }
    for stamp in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let known = old.map(|old| &old["metadata"][stamp]).filter(|known| !known.is_null()).unwrap_or(&said[stamp]);
        if !known.is_null() {
            object["metadata"][stamp] = known.clone();
        }
    }
    if let Some(generation) = old.and_then(|old| object::integer(old, &["metadata", "generation"])) {
        object["metadata"]["generation"] = (generation + 1).into();
    }
    Ok(())
}

impl<P: Place> Backend for Mirror<P> {
    fn group(&self) -> &str {
        object::text(&self.definition, &["spec", "group"])
    }

    /// The one that is stored.
    fn version(&self) -> &str {
        let mut versions = object::list(&self.definition, &["spec", "versions"]).iter();
        versions
            .find(|version| object::flag(version, &["storage"]))
            .map_or("", |version| object::text(version, &["name"]))
    }

    fn resources(&self) -> Vec<Offered> {
        vec![Offered::Defined(self.definition.clone())]
    }

    fn answer<'a>(
        &'a self,
        server: &'a ApiServer,
        call: &'a Call,
        sent: Sent,
        notes: &'a Notes,
    ) -> BoxFuture<'a, Result<Response<Body>, Status>> {
        Box::pin(async move {
            // Nobody else looks whether a namespace has a name that may stand in a path.
            let namespace = call.namespace();
            if !namespace.is_empty() && !rules::dns_label(namespace).is_empty() {
                return Err(Status::not_found("", "namespaces", namespace));
            }
            let mut odd = self.copying.lock().await;
            self.compare(server, call.resource()?, &mut odd).await?;
            if call.verb.is_read() {
                drop(odd);
                return verbs::dispatch(server, call, sent, notes).await;
            }
            self.write(server, call, sent, (notes, &mut odd)).await
        })
    }
}
