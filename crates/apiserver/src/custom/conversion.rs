//! Objects of a custom kind in another version, where the definition names a webhook that converts them.
//!
//! - Many objects are one question, and only those of another version are sent.
//! - What was converted is kept by the object's revision: reading again asks nobody. An object that changes, or a definition
//!   that changes, is asked about anew.
//! - An answer counts only if it keeps what a conversion must not touch; of the metadata only labels and annotations may change.

use crate::catalogue::Resource;
use crate::codec;
use crate::outbound::{Client, Credentials};
use crate::registry::{Registry, shown};
use bytes::Bytes;
use pintle_meta::{Status, object};
use pintle_store::Entry;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// As many objects as are asked about at once.
const BATCH: usize = 500;
/// As much as is kept of what was converted, for each version of a definition.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;

pub(crate) struct Converter {
    client: Client,
    /// The first version of ConversionReview that both sides speak.
    review: Option<&'static str>,
    kept: Mutex<Kept>,
}

/// The converted bytes of the newest revision of each object.
#[derive(Default)]
struct Kept {
    by_key: HashMap<Arc<str>, (u64, Bytes)>,
    bytes: usize,
}

impl Converter {
    /// None if versions differ in nothing but their name.
    pub(super) fn read(definition: &Value) -> Option<Self> {
        let conversion = object::at(definition, &["spec", "conversion"])?;
        if object::text(conversion, &["strategy"]) != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let mut versions = object::list(webhook, &["conversionReviewVersions"]).iter().filter_map(Value::as_str);
        let review = versions.find_map(|version| ["v1", "v1beta1"].into_iter().find(|known| *known == version));
        Some(Converter { client: Client::read(&webhook["clientConfig"]), review, kept: Mutex::default() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of one kind in the wanted version, in the same order.
    async fn convert(&self, registry: &Registry, wanted: &str, objects: Vec<Value>) -> Result<Vec<Value>, String> {
        let mut converted = Vec::with_capacity(objects.len());
        let mut left = objects.into_iter().peekable();
        while left.peek().is_some() {
            let batch: Vec<Value> = left.by_ref().take(BATCH).collect();
            converted.extend(self.ask(registry, wanted, batch).await?);
        }
        Ok(converted)
    }

    async fn ask(&self, registry: &Registry, wanted: &str, objects: Vec<Value>) -> Result<Vec<Value>, String> {
        let of = objects.first().map(kind_of).unwrap_or_default();
        let failed = |why: &dyn std::fmt::Display| format!("conversion webhook for {of} failed: {why}");
        let version = self.review.ok_or("no supported conversion review versions")?;
        let uid = registry.random.uid();
        let review = json!({"kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects}});
        let answered = self.client.post(registry, &Credentials::default(), "", review.to_string().into(), LIMIT).await;
        let body = answered.map_err(|unanswered| failed(&unanswered))?;
        let answers = read(&body, version, &uid).map_err(|why| failed(&why))?;
        if answers.len() != objects.len() {
            let (got, expected) = (answers.len(), objects.len());
            return Err(format!("conversion webhook for {of} returned {got} objects, expected {expected}"));
        }
        let pairs = objects.iter().zip(answers).enumerate();
        pairs
            .map(|(index, (original, answer))| {
                accept(original, answer, wanted).map_err(|why| {
                    format!("conversion webhook for {of} returned invalid converted object at index {index}: {why}")
                })
            })
            .collect()
    }
}

fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", object::text(object, &["apiVersion"]), object::kind(object))
}

/// The objects of an answer.
fn read(body: &[u8], version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (kind, api_version) = (object::kind(&review), object::text(&review, &["apiVersion"]));
    let expected = format!("apiextensions.k8s.io/{version}");
    if version == "v1" && (kind != "ConversionReview" || api_version != expected) {
        return Err(format!(
            "expected webhook response of {expected}, Kind=ConversionReview, got {api_version}, Kind={kind}"
        ));
    }
    let response = review.get("response").filter(|response| response.is_object()).ok_or("no response provided")?;
    let said = object::text(response, &["uid"]);
    if version == "v1" && said != uid {
        return Err(format!("expected response.uid={uid:?}, got {said:?}"));
    }
    let status = object::text(response, &["result", "status"]);
    if status != "Success" {
        return Err(match object::text(response, &["result", "message"]) {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    Ok(object::list(response, &["convertedObjects"]).to_vec())
}

/// What an answer makes of an object: its content, with the metadata that the object has.
fn accept(original: &Value, mut answer: Value, wanted: &str) -> Result<Value, String> {
    let version = object::text(&answer, &["apiVersion"]);
    if version != wanted {
        return Err(format!("invalid groupVersion (expected {wanted}, received {version})"));
    }
    let (was, is) = (object::kind(original), object::kind(&answer));
    if was != is {
        return Err(format!("invalid kind (expected {was}, received {is})"));
    }
    for (what, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let (was, is) = (object::text(original, &["metadata", field]), object::text(&answer, &["metadata", field]));
        if was != is {
            return Err(format!("must have the same {what}: {was} != {is}"));
        }
    }
    let Some(said) = answer.get("metadata").and_then(Value::as_object) else {
        return Err("missing metadata in converted object".to_owned());
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match said.get(field) {
            None | Some(Value::Null) => _ = metadata.remove(field),
            Some(Value::Object(texts)) => {
                check_texts(field, texts)?;
                metadata.insert(field.to_owned(), Value::Object(texts.clone()));
            }
            Some(_) => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    answer["metadata"] = Value::Object(metadata);
    Ok(answer)
}

fn check_texts(field: &str, texts: &Map<String, Value>) -> Result<(), String> {
    match texts.iter().find(|(_, value)| !value.is_string()) {
        Some((key, _)) => Err(format!("metadata.{field}[{key}] must be a string in converted object")),
        None => Ok(()),
    }
}

impl Kept {
    fn get(&self, entry: &Entry) -> Option<Bytes> {
        let (revision, bytes) = self.by_key.get(&entry.key)?;
        (*revision == entry.mod_revision).then(|| bytes.clone())
    }

    fn put(&mut self, entry: &Entry, bytes: Bytes) {
        if self.bytes + bytes.len() > MAX_KEPT_BYTES {
            *self = Kept::default();
        }
        self.bytes += bytes.len();
        if let Some((_, old)) = self.by_key.insert(entry.key.clone(), (entry.mod_revision, bytes)) {
            self.bytes -= old.len();
        }
    }
}

/// A failed conversion, as the client hears it.
fn failure(why: String) -> Status {
    Status::new(500, "", why)
}

impl Registry {
    /// Objects in this version of their kind, by the webhook of their definition if it names one.
    pub async fn convert(
        &self,
        resource: &Resource,
        api_version: &str,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        // What asks a webhook is boxed: it is rare, and no part of every request's state.
        let Some(converter) = resource.converter() else { return Ok(objects) };
        let is_other = |object: &Value| object::text(object, &["apiVersion"]) != api_version;
        let others: Vec<Value> = objects.iter().filter(|object| is_other(object)).cloned().collect();
        if others.is_empty() {
            return Ok(objects);
        }
        let converted = Box::pin(converter.convert(self, api_version, others)).await;
        let mut converted = converted.map_err(failure)?.into_iter();
        let in_order = objects.into_iter().map(|object| match is_other(&object) {
            true => converted.next().unwrap_or(object),
            false => object,
        });
        Ok(in_order.collect())
    }

    /// One object.
    pub async fn convert_one(&self, resource: &Resource, api_version: &str, object: Value) -> Result<Value, Status> {
        let mut converted = self.convert(resource, api_version, vec![object]).await?;
        converted.pop().ok_or_else(|| Status::internal("nothing was converted"))
    }

    /// Entries as clients of this version read them, where a webhook has to say. All others are what they were.
    pub async fn entries_in(
        &self,
        resource: &Resource,
        mut entries: Vec<Arc<Entry>>,
    ) -> Result<Vec<Arc<Entry>>, Status> {
        let Some(converter) = resource.converter() else { return Ok(entries) };
        let mut asked: Vec<usize> = Vec::new();
        for (at, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !resource.is_written_in(&entry.value)) {
            match converter.kept().get(entry) {
                Some(bytes) => *entry = Arc::new(entry.shown_as(bytes)),
                None => asked.push(at),
            }
        }
        let objects: Vec<Value> = asked.iter().map(|at| codec::decode(&entries[*at].value)).collect();
        let wanted = resource.api_version();
        let converted = Box::pin(converter.convert(self, &wanted, objects)).await.map_err(failure)?;
        for (at, object) in asked.into_iter().zip(converted) {
            let bytes = shown(&object);
            converter.kept().put(&entries[at], bytes.clone());
            entries[at] = Arc::new(entries[at].shown_as(bytes));
        }
        Ok(entries)
    }

    /// One entry.
    pub async fn entry_in(&self, resource: &Resource, entry: Arc<Entry>) -> Result<Arc<Entry>, Status> {
        if resource.converter().is_none() {
            return Ok(entry);
        }
        let mut entries = self.entries_in(resource, vec![entry]).await?;
        entries.pop().ok_or_else(|| Status::internal("nothing was converted"))
    }
}

#[cfg(test)]
mod tests;
