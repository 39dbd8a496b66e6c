//! What a webhook is sent: an AdmissionReview about a request.

use super::hook::{Hook, Version};
use super::matching::Subject;
use crate::admission::Operation;
use crate::catalogue::Resource;
use crate::registry::{DeleteOptions, Propagation};
use crate::verb::Verb;
use bytes::Bytes;
use pintle_meta::names::split_api_version;
use pintle_meta::object;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The object before and after, in the version that the webhook is shown.
pub(super) struct Shown<'a> {
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    /// The version of the resource in which they are.
    pub(super) resource: &'a Resource,
}

#[derive(Serialize)]
struct Review<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: String,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    kind: Kind<'a>,
    resource: Plural<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: Plural<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: UserInfo<'a>,
    object: Option<&'a Value>,
    old_object: Option<&'a Value>,
    dry_run: bool,
    options: Option<Value>,
}

#[derive(Clone, Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct Plural<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> Plural<'a> {
    fn of(resource: &'a Resource) -> Self {
        Plural { group: &resource.group, version: &resource.version, resource: &resource.name }
    }
}

/// The body of a call.
pub(super) fn body<'a>(subject: &'a Subject<'a>, hook: &Hook, version: Version, uid: &str, shown: &Shown<'a>) -> Bytes {
    let (call, asked) = (subject.review.call, subject.asked);
    let subresource = call.path.subresource.as_str();
    let any = shown.object.or(shown.old);
    // A subresource shows an object of its own kind: a Scale, a Binding.
    let own_kind = any.filter(|_| !subresource.is_empty()).map(|any| {
        let (group, version) = split_api_version(object::text(any, &["apiVersion"]));
        Kind { group, version, kind: object::kind(any) }
    });
    let of = |resource: &'a Resource| Kind { group: &resource.group, version: &resource.version, kind: &resource.kind };
    let is_same = |kind: &Kind<'_>| kind.kind == asked.kind;
    let (kind, request_kind) = match own_kind {
        Some(own) if !is_same(&own) && !own.kind.is_empty() => (own.clone(), own),
        _ => (of(shown.resource), of(asked)),
    };
    let user = &call.user;
    let review = Review {
        kind: "AdmissionReview",
        api_version: format!("admission.k8s.io/{}", version.as_str()),
        request: Request {
            uid,
            kind,
            resource: Plural::of(shown.resource),
            sub_resource: subresource,
            request_kind,
            request_resource: Plural::of(asked),
            request_sub_resource: subresource,
            name: name(subject, shown),
            namespace: subject.namespace,
            operation: subject.review.operation.as_str(),
            user_info: UserInfo { username: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra },
            object: shown.object,
            old_object: shown.old,
            dry_run: is_dry_run(subject),
            options: options(subject),
        },
    };
    tracing::trace!(webhook = %hook.name, uid, "asks a webhook");
    // What was read as JSON can be written as JSON.
    serde_json::to_vec(&review).unwrap_or_default().into()
}

/// The name of the path, else the object's. Who deletes a collection names none.
fn name<'a>(subject: &Subject<'a>, shown: &Shown<'a>) -> &'a str {
    let call = subject.review.call;
    match call.path.name.as_str() {
        _ if call.verb == Verb::DeleteCollection => "",
        "" => shown.object.map_or("", object::name),
        name => name,
    }
}

/// What says that nothing is to be stored.
pub(super) fn is_dry_run(subject: &Subject<'_>) -> bool {
    let in_body = subject.review.deletion.is_some_and(|options| options.dry_run);
    in_body || subject.review.call.dry_run().unwrap_or(false)
}

/// The options of the request, as an object.
fn options(subject: &Subject<'_>) -> Option<Value> {
    let call = subject.review.call;
    let (kind, mut options) = match subject.review.operation {
        Operation::Create => ("CreateOptions", Map::new()),
        Operation::Update => ("UpdateOptions", Map::new()),
        Operation::Delete => ("DeleteOptions", subject.review.deletion.map(of_deletion).unwrap_or_default()),
        Operation::Connect => return None,
    };
    options.insert("kind".to_owned(), kind.into());
    options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    if is_dry_run(subject) {
        options.insert("dryRun".to_owned(), json!(["All"]));
    }
    if subject.review.operation != Operation::Delete {
        for name in ["fieldManager", "fieldValidation"] {
            let value = call.query.get(name);
            if !value.is_empty() {
                options.insert(name.to_owned(), value.into());
            }
        }
    }
    Some(Value::Object(options))
}

fn of_deletion(deletion: &DeleteOptions) -> Map<String, Value> {
    let mut options = Map::new();
    if let Some(seconds) = deletion.grace_period_seconds {
        options.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    let mut preconditions = Map::new();
    let conditions = [("uid", &deletion.uid), ("resourceVersion", &deletion.resource_version)];
    for (name, value) in conditions.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        preconditions.insert(name.to_owned(), value.as_str().into());
    }
    if !preconditions.is_empty() {
        options.insert("preconditions".to_owned(), preconditions.into());
    }
    let policy = deletion.propagation.map(|propagation| match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    });
    if let Some(policy) = policy {
        options.insert("propagationPolicy".to_owned(), policy.into());
    }
    options
}
