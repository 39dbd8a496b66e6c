//! Questions about access: whether they can be asked so, and what the authorizers say.

use crate::ApiServer;
use crate::authn::User;
use crate::authz::{Judgment, Verdict};
use crate::call::Call;
use crate::request::ResourcePath;
use crate::verb::Verb;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::labels::{FieldSelector, FieldTerm, Selector};
use pintle_meta::{Status, object, rules};
use serde_json::{Value, json};
use std::sync::Arc;

/// A question about access names one thing and somebody; a local one stays in the namespace of its path.
pub(super) fn validate(kind: &str, namespace: &str, question: &Value, errors: &mut Errors) -> Result<(), Status> {
    let spec = Path::new("spec");
    if !matches!(kind, "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview") {
        return Ok(());
    }
    let given = object::namespace(question);
    if kind == "LocalSubjectAccessReview" && !given.is_empty() && given != namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    let part = |key: &str| object::at(question, &["spec", key]).filter(|value| !value.is_null());
    let (resource, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    match (resource, path) {
        (Some(_), Some(path)) => errors.push(Error::invalid(
            &spec.child("nonResourceAttributes"),
            path.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(Error::invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let named = !object::text(question, &["spec", "user"]).is_empty()
        || !object::list(question, &["spec", "groups"]).is_empty();
    if kind != "SelfSubjectAccessReview" && !named {
        errors.push(Error::invalid(&spec.child("user"), "", "at least one of user or group must be specified"));
    }
    if let Some(resource) = resource {
        let path = spec.child("resourceAttributes");
        validate_selector(resource, "fieldSelector", &path, errors);
        validate_selector(resource, "labelSelector", &path, errors);
    }
    let metadata = question.get("metadata").and_then(Value::as_object);
    let own = |key: &str| key == "managedFields" || (key == "namespace" && kind == "LocalSubjectAccessReview");
    if metadata.into_iter().flatten().any(|(key, value)| !own(key) && !value.is_null()) {
        let why =
            if kind == "LocalSubjectAccessReview" { "must be empty except for namespace" } else { "must be empty" };
        errors.push(Error::invalid(&Path::new("metadata"), question["metadata"].clone(), why));
    }
    if kind != "LocalSubjectAccessReview" {
        return Ok(());
    }
    let asked = resource.map(|resource| object::text(resource, &["namespace"])).filter(|asked| *asked != namespace);
    if let Some(asked) = asked {
        let path = spec.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, asked, "must match metadata.namespace"));
    }
    if let Some(path) = path {
        let why = "disallowed on this kind of request";
        errors.push(Error::invalid(&spec.child("nonResourceAttributes"), path.clone(), why));
    }
    Ok(())
}

/// A selector of the question: a text, or requirements. Operators that are not known here are no error: what they would select
/// is left open, which only widens the question.
fn validate_selector(resource: &Value, kind: &str, path: &Path, errors: &mut Errors) {
    let Some(selector) = object::at(resource, &[kind]).filter(|selector| !selector.is_null()) else { return };
    let path = path.child(kind);
    let (raw, requirements) = (object::text(selector, &["rawSelector"]), object::list(selector, &["requirements"]));
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let why = "may not specified at the same time as requirements";
            errors.push(Error::invalid(&path.child("rawSelector"), raw, why));
        }
        (true, true) => {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(Error::required(&path.child("requirements"), why));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        let (key, values) = (object::text(requirement, &["key"]), object::list(requirement, &["values"]));
        let no_key = Error::required(&path.child("key"), "must be specified");
        if kind == "fieldSelector" {
            errors.extend(Some(no_key).filter(|_| key.is_empty()));
        }
        match object::text(requirement, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&path.child("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&path.child("values"), why));
            }
            _ => {}
        }
        if kind == "labelSelector" {
            let wrong = rules::qualified_name(key).into_iter();
            errors.extend(wrong.map(|why| Error::invalid(&path.child("key"), key, why)));
            for (index, value) in values.iter().enumerate() {
                let text = value.as_str().unwrap_or_default();
                let wrong = rules::label_value(text).into_iter();
                errors.extend(wrong.map(|why| Error::invalid(&path.child("values").index(index), text, why)));
            }
        }
    }
}

/// What the authorizers say, and what went wrong on the way.
pub(super) async fn decide(server: &ApiServer, user: Arc<User>, question: &Value) -> Value {
    let (asked, mut problems) = read(user, question);
    let Judgment { verdict, error } = server.authorizer.judge(&asked).await;
    if let Some(error) = error {
        problems.insert(0, error);
    }
    let (mut status, reason) = match verdict {
        Verdict::Allow(reason) => (json!({"allowed": true}), reason),
        Verdict::Deny(reason) => (json!({"allowed": false, "denied": true}), reason),
        Verdict::NoOpinion(reason) => (json!({"allowed": false}), reason),
    };
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    if !problems.is_empty() {
        status["evaluationError"] = problems.join("; ").into();
    }
    status
}

/// The question as a call, and which parts of its selectors do not count.
fn read(user: Arc<User>, question: &Value) -> (Call, Vec<String>) {
    let Some(what) = object::at(question, &["spec", "resourceAttributes"]).filter(|what| !what.is_null()) else {
        let text = |key: &str| object::text(question, &["spec", "nonResourceAttributes", key]);
        return (Call::asks_path(user, Verb::of(text("verb")), text("path")), Vec::new());
    };
    let text = |key: &str| object::text(what, &[key]).to_owned();
    let path = ResourcePath {
        group: text("group"),
        version: Some(text("version")).filter(|version| !version.is_empty()).unwrap_or_else(|| "*".to_owned()),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        ..ResourcePath::default()
    };
    let mut call = Call::asks(user, Verb::of(&text("verb")), path);
    let mut problems = Vec::new();
    let mut note = |kind: &str, is_part: bool| {
        let how = if is_part { "partially ignored" } else { "ignored" };
        problems.push(format!("spec.resourceAttributes.{kind} {how} due to parse error"));
    };
    let part = |kind: &str| {
        let raw = object::text(what, &[kind, "rawSelector"]).to_owned();
        (raw, object::list(what, &[kind, "requirements"]))
    };
    let (raw, requirements) = part("fieldSelector");
    let (fields, is_whole) = fields(&raw, requirements);
    if !is_whole {
        note("fieldSelector", !fields.terms.is_empty());
    }
    let (raw, requirements) = part("labelSelector");
    let (labels, is_whole) = if requirements.is_empty() {
        Selector::parse(&raw).map_or((Selector::default(), false), |selector| (selector, true))
    } else {
        let (selector, errors) = Selector::from_expressions(requirements);
        (selector, errors.is_empty())
    };
    if !is_whole {
        note("labelSelector", !labels.is_everything());
    }
    (call.fields, call.labels) = (fields, labels);
    (call, problems)
}

/// The requirements that field selectors can express: one value each. And whether these are all.
fn fields(raw: &str, requirements: &[Value]) -> (FieldSelector, bool) {
    if requirements.is_empty() {
        return FieldSelector::parse(raw).map_or((FieldSelector::default(), false), |selector| (selector, true));
    }
    let terms: Vec<FieldTerm> = requirements
        .iter()
        .filter_map(|requirement| {
            let equal = match object::text(requirement, &["operator"]) {
                "In" => true,
                "NotIn" => false,
                _ => return None,
            };
            let [value] = object::list(requirement, &["values"]) else { return None };
            let (field, value) = (object::text(requirement, &["key"]).to_owned(), value.as_str()?.to_owned());
            Some(FieldTerm { field, value, equal })
        })
        .collect();
    let is_whole = terms.len() == requirements.len();
    (FieldSelector { terms }, is_whole)
}
