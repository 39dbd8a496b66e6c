//! What a webhook answers: an AdmissionReview, which is checked before anything of it counts.

use super::hook::Version;
use crate::parse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_meta::{Status, object};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The verdict of a webhook.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) result: Option<Value>,
    /// A JSON patch, not yet read.
    pub(super) patch: Vec<u8>,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// Why an answer does not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Odd {
    /// It is no AdmissionReview.
    Unreadable(String),
    /// It is one, and breaks the rules.
    Invalid(String),
}

/// Reads an answer to the question of this identity.
pub(super) fn read(body: &[u8], version: Version, uid: &str, mutating: bool) -> Result<Answer, Odd> {
    let review = review(body, version).map_err(Odd::Unreadable)?;
    let invalid = |why: String| Odd::Invalid(why);
    let response = match review.get("response") {
        None | Some(Value::Null) => return Err(invalid("webhook response was absent".to_owned())),
        Some(response) => response,
    };
    let response: Response =
        Deserialize::deserialize(response).map_err(|error| Odd::Unreadable(format!("json: {error}")))?;
    let patch = STANDARD.decode(response.patch.as_deref().unwrap_or_default());
    let patch = patch.map_err(|error| Odd::Unreadable(format!("illegal base64 data: {error}")))?;
    // Neither was checked in v1beta1.
    if version == Version::V1 {
        if response.uid != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {:?}", response.uid)));
        }
        check_patch(&patch, response.patch_type.as_deref(), mutating).map_err(invalid)?;
    }
    Ok(Answer {
        allowed: response.allowed,
        result: response.status,
        patch: if mutating { patch } else { Vec::new() },
        warnings: response.warnings.unwrap_or_default(),
        annotations: response.audit_annotations.unwrap_or_default(),
    })
}

fn check_patch(patch: &[u8], kind: Option<&str>, mutating: bool) -> Result<(), String> {
    let problem = match (mutating, patch.is_empty(), kind) {
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(problem.to_owned())
}

/// The AdmissionReview of a body, of the version that was asked for.
fn review(body: &[u8], version: Version) -> Result<Value, String> {
    let parsed = match parse::json(body) {
        Ok(parsed) => parsed.value,
        // YAML is understood, too.
        Err(_) => {
            parse::yaml(body).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?.value
        }
    };
    if !parsed.is_object() {
        let found = match &parsed {
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::Null | Value::Object(_) => "null",
        };
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    let (kind, api_version) = (object::kind(&parsed), object::text(&parsed, &["apiVersion"]));
    if kind.is_empty() || api_version.is_empty() {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(format!("Object '{missing}' is missing in '{}'", String::from_utf8_lossy(body)));
    }
    let expected = version.as_str();
    match (kind, api_version.strip_prefix("admission.k8s.io/")) {
        ("AdmissionReview", Some(spoken)) if spoken == expected => Ok(parsed),
        ("AdmissionReview", Some(spoken @ ("v1" | "v1beta1"))) => {
            Err(format!("converting ({spoken}.AdmissionReview) to ({expected}.AdmissionReview): unknown conversion"))
        }
        _ => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
        )),
    }
}

/// The refusal of a webhook, as the client hears it.
pub(super) fn refusal(hook: &str, result: Option<&Value>) -> Status {
    let text = |key: &str| result.map_or("", |result| object::text(result, &[key]));
    let denied = format!("admission webhook {hook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = result.and_then(|result| object::integer(result, &["code"])).unwrap_or(0);
    // No other code is one of a refusal.
    let code = u16::try_from(code).ok().filter(|code| (400..=599).contains(code)).unwrap_or(400);
    let mut status = Status::new(code, text("reason").to_owned(), message);
    status.details = result.and_then(|result| result.get("details")).filter(|details| details.is_object()).cloned();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(answer: &Value, mutating: bool) -> Result<bool, Odd> {
        read(answer.to_string().as_bytes(), Version::V1, "u", mutating).map(|answer| answer.allowed)
    }

    #[test]
    fn an_answer_that_breaks_the_rules_does_not_count() {
        let review = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        let invalid = |why: &str| Err(Odd::Invalid(why.to_owned()));
        let patch = STANDARD.encode("[]");
        for (response, mutating, verdict) in [
            (json!({"uid": "u", "allowed": true}), false, Ok(true)),
            (json!({"uid": "u"}), true, Ok(false)),
            (json!({"uid": "other", "allowed": true}), false, invalid("expected response.uid=\"u\", got \"other\"")),
            (json!({"allowed": true}), false, invalid("expected response.uid=\"u\", got \"\"")),
            (Value::Null, false, invalid("webhook response was absent")),
            (
                json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch"}),
                false,
                invalid("validating webhook may not return response.patch"),
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": patch}),
                true,
                invalid("webhook returned response.patch but not response.patchType"),
            ),
            (
                json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"}),
                true,
                invalid("webhook returned response.patchType but not response.patch"),
            ),
        ] {
            assert_eq!(judged(&review(response.clone()), mutating), verdict, "{response}");
        }
        let other =
            json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"uid": "u"}});
        assert!(matches!(judged(&other, false), Err(Odd::Unreadable(_))));
        // Written before identities were checked.
        let older = read(other.to_string().as_bytes(), Version::V1Beta1, "another", false);
        assert!(older.is_ok_and(|answer| !answer.allowed));
        for text in ["", "[]", "<html>", "{", "{\"kind\": 7}"] {
            assert!(matches!(read(text.as_bytes(), Version::V1, "u", true), Err(Odd::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn a_refusal_never_looks_like_a_success() {
        let told = |result: Value| {
            let status = refusal("a.b.c", Some(&result));
            (status.code, status.message.replace("admission webhook \"a.b.c\" denied the request", "no"))
        };
        assert_eq!(told(json!({"code": 200, "message": "fine"})), (400, "no: fine".to_owned()));
        assert_eq!(told(json!({"code": 70000, "reason": "Odd"})), (400, "no: Odd".to_owned()));
        assert_eq!(told(json!({"code": 422})), (422, "no without explanation".to_owned()));
    }
}
