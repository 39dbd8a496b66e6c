//! One question of the API server and one answer: AdmissionReview v1, with the object as the type that the handler wants.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";

/// What is about to happen to an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "K: DeserializeOwned")]
pub struct Request<K> {
    pub uid: String,
    pub operation: Operation,
    pub kind: Kind,
    #[serde(default)]
    pub sub_resource: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub user_info: User,
    /// As it is to be; none when it is deleted.
    #[serde(default = "Option::default")]
    pub object: Option<K>,
    /// As it is; none when it is created.
    #[serde(default = "Option::default")]
    pub old_object: Option<K>,
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// Who asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a validating handler has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    denied: Option<String>,
    warnings: Vec<String>,
}

impl Verdict {
    pub fn allow() -> Self {
        Verdict::default()
    }

    /// The message reaches the person who asked: say what is wrong and what to do.
    pub fn deny(message: impl Into<String>) -> Self {
        Verdict { denied: Some(message.into()), warnings: Vec::new() }
    }

    /// Something to tell the person, whatever the verdict.
    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}

/// What a mutating handler has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation<K> {
    verdict: Verdict,
    object: Option<K>,
}

impl<K> Mutation<K> {
    /// The object stays as it was sent.
    pub fn unchanged() -> Self {
        Mutation { verdict: Verdict::allow(), object: None }
    }

    /// The object becomes this one. What the type does not know about stays as it was sent.
    pub fn to(object: K) -> Self {
        Mutation { verdict: Verdict::allow(), object: Some(object) }
    }

    pub fn deny(message: impl Into<String>) -> Self {
        Mutation { verdict: Verdict::deny(message), object: None }
    }

    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.verdict = self.verdict.warn(warning);
        self
    }
}

/// A body in; a body out, or a status and a reason.
pub(super) type Handler = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<Vec<u8>, Refusal>> + Send + Sync>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request<Value>,
}

pub(super) fn validating<K, F>(handle: impl Fn(Request<K>) -> F + Send + Sync + 'static) -> Handler
where
    K: DeserializeOwned + Send + 'static,
    F: Future<Output = Verdict> + Send + 'static,
{
    let handle = Arc::new(handle);
    Arc::new(move |body| {
        let handle = handle.clone();
        async move {
            let request = match typed::<K>(read(&body)?) {
                Ok(request) => request,
                Err(refused) => return Ok(refused),
            };
            let uid = request.uid.clone();
            let verdict = guarded(async move { handle(request).await }).await?;
            Ok(answer(&uid, verdict, None))
        }
        .boxed()
    })
}

pub(super) fn mutating<K, F>(handle: impl Fn(Request<K>) -> F + Send + Sync + 'static) -> Handler
where
    K: DeserializeOwned + Serialize + Clone + Send + 'static,
    F: Future<Output = Mutation<K>> + Send + 'static,
{
    let handle = Arc::new(handle);
    Arc::new(move |body| {
        let handle = handle.clone();
        async move {
            let request = match typed::<K>(read(&body)?) {
                Ok(request) => request,
                Err(refused) => return Ok(refused),
            };
            let (uid, before) = (request.uid.clone(), request.object.clone());
            let Mutation { verdict, object } = guarded(async move { handle(request).await }).await?;
            let patch = match (before, object) {
                (Some(before), Some(after)) if verdict.denied.is_none() => patch(&body, &before, &after)?,
                _ => None,
            };
            Ok(answer(&uid, verdict, patch))
        }
        .boxed()
    })
}

fn read(body: &[u8]) -> Result<Request<Value>, Refusal> {
    let refuse = |why: String| Refusal(StatusCode::BAD_REQUEST, why);
    let review: Review =
        serde_json::from_slice(body).map_err(|error| refuse(format!("the body is no AdmissionReview: {error}")))?;
    if review.api_version != API_VERSION || review.kind != "AdmissionReview" {
        let is = format!("{}, Kind={}", review.api_version, review.kind);
        return Err(refuse(format!("the body is {is}, not {API_VERSION}, Kind=AdmissionReview")));
    }
    Ok(review.request)
}

/// The request with objects of the handler's type. Webhooks see objects before their schema is checked: one that is not of the
/// type is refused with what is wrong with it, for the person who wrote it.
fn typed<K: DeserializeOwned>(request: Request<Value>) -> Result<Request<K>, Vec<u8>> {
    let decode = |value: Option<Value>| {
        let decoded = value.filter(|value| !value.is_null()).map(serde_json::from_value::<K>).transpose();
        decoded.map_err(|error| {
            let message = format!("this is not a valid {}: {error}", request.kind.kind);
            let status = json!({"code": 400, "reason": "BadRequest", "message": message});
            respond(&json!({"uid": request.uid, "allowed": false, "status": status}))
        })
    };
    Ok(Request {
        object: decode(request.object)?,
        old_object: decode(request.old_object)?,
        uid: request.uid,
        operation: request.operation,
        kind: request.kind,
        sub_resource: request.sub_resource,
        name: request.name,
        namespace: request.namespace,
        user_info: request.user_info,
        dry_run: request.dry_run,
    })
}

/// A panic in a handler is an answer to that request, and nothing more.
pub(super) async fn guarded<T>(handling: impl Future<Output = T>) -> Result<T, Refusal> {
    AssertUnwindSafe(handling).catch_unwind().await.map_err(|_| {
        tracing::error!("a webhook's handler panicked; this is a bug in it");
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the webhook has a bug that this request met; see its log".into())
    })
}

/// From what was sent to what the handler made of it. Fields that its type does not know are left alone, and those that the type adds
/// when it is written are added only if the handler changed them.
fn patch<K: Serialize>(body: &[u8], before: &K, after: &K) -> Result<Option<Value>, Refusal> {
    let failed = |why: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, why);
    let value = |object: &K| serde_json::to_value(object).map_err(|error| failed(error.to_string()));
    let review: Value = serde_json::from_slice(body).map_err(|error| failed(error.to_string()))?;
    let sent = &review["request"]["object"];
    let mut made = sent.clone();
    carry(&mut made, &value(before)?, &value(after)?);
    let patch = json_patch::diff(sent, &made);
    Ok((!patch.0.is_empty()).then(|| json!(patch)))
}

/// Does to `sent` what was done to `before`.
fn carry(sent: &mut Value, before: &Value, after: &Value) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after)) if sent.is_object() || sent.is_null() => {
            if sent.is_null() {
                *sent = json!({});
            }
            let Some(sent) = sent.as_object_mut() else { return };
            sent.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
            for (key, value) in after {
                match before.get(key) {
                    Some(old) if old == value => {}
                    Some(old) => carry(sent.entry(key).or_insert(Value::Null), old, value),
                    None => _ = sent.insert(key.clone(), value.clone()),
                }
            }
        }
        (Value::Array(before), Value::Array(after))
            if sent.as_array().is_some_and(|sent| sent.len() == before.len()) =>
        {
            let Some(sent) = sent.as_array_mut() else { return };
            sent.truncate(after.len());
            for (index, value) in after.iter().enumerate() {
                match (sent.get_mut(index), before.get(index)) {
                    (Some(item), Some(old)) => carry(item, old, value),
                    _ => sent.push(value.clone()),
                }
            }
        }
        _ => *sent = after.clone(),
    }
}

fn answer(uid: &str, verdict: Verdict, patch: Option<Value>) -> Vec<u8> {
    let mut response = json!({"uid": uid, "allowed": verdict.denied.is_none()});
    if let Some(message) = verdict.denied {
        response["status"] = json!({"code": 403, "message": message});
    }
    if !verdict.warnings.is_empty() {
        response["warnings"] = verdict.warnings.into();
    }
    if let Some(patch) = patch {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
    }
    respond(&response)
}

fn respond(response: &Value) -> Vec<u8> {
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_to_what_was_sent_and_to_nothing_else() {
        for (sent, before, after, made) in [
            // A field that was left out, and that the type writes all the same.
            (json!({}), json!({"a": "", "b": []}), json!({"a": "x", "b": []}), json!({"a": "x"})),
            (json!({}), json!({"a": {"b": 0, "c": 0}}), json!({"a": {"b": 1, "c": 0}}), json!({"a": {"b": 1}})),
            // What the type does not know stays, in lists too.
            (
                json!({"unknown": 1, "l": [{"n": 1, "unknown": 2}]}),
                json!({"l": [{"n": 1}]}),
                json!({"l": [{"n": 3}, {"n": 4}]}),
                json!({"unknown": 1, "l": [{"n": 3, "unknown": 2}, {"n": 4}]}),
            ),
            (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 2}), json!({"b": 2}), json!({"b": 2})),
            (json!({"l": [1, 2, 3]}), json!({"l": [1, 2, 3]}), json!({"l": [1]}), json!({"l": [1]})),
            (json!({"a": "1"}), json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
        ] {
            let mut carried = sent.clone();
            carry(&mut carried, &before, &after);
            assert_eq!(carried, made, "{sent}");
        }
    }
}
