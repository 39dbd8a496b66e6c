//! A body on its way in: read, recognised, checked against its schema, completed, and turned into the stored version.

use crate::body::{self, Parsed};
use crate::catalogue::Resource;
use crate::request::Query;
use http::HeaderMap;
use pintle_meta::{Status, object};
use pintle_schema::protobuf;
use serde_json::Value;

/// What to do about fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    pub fn from(query: &Query) -> Result<Self, Status> {
        match query.get("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(Status::invalid(
                "meta.k8s.io",
                "CreateOptions",
                "",
                &[pintle_meta::field::Error::not_supported(
                    &pintle_meta::field::Path::new("fieldValidation"),
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                )],
            )),
        }
    }
}

const MEDIA: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const MEDIA_CUSTOM: &str = "application/json, application/yaml";

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A protobuf body as the JSON it stands for.
fn parse_protobuf(bytes: &[u8]) -> Result<Parsed, String> {
    let envelope = protobuf::open(bytes).map_err(|e| e.to_string())?;
    let (group, version) = pintle_meta::names::split_api_version(&envelope.api_version);
    let type_name = match envelope.kind.as_str() {
        // Options are of every group.
        "DeleteOptions" => "meta.v1.DeleteOptions".to_owned(),
        kind => crate::catalogue::type_name(group, version, kind),
    };
    let mut value = protobuf::decode(&type_name, envelope.raw).map_err(|e| e.to_string())?;
    let map = object::as_map(&mut value);
    map.insert("apiVersion".into(), envelope.api_version.into());
    map.insert("kind".into(), envelope.kind.into());
    Ok(Parsed { value, duplicates: Vec::new() })
}

pub fn media_type(headers: &HeaderMap) -> String {
    let header = headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads the body by its media type. `kind` is what the path expects, for the errors.
pub fn read(headers: &HeaderMap, bytes: &[u8], kind: &str, custom: bool) -> Result<Parsed, Status> {
    let media = media_type(headers);
    let unrecognized = |why: String, shown: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({shown})"
        ))
    };
    let parsed = match media.as_str() {
        "application/json" | "" => body::parse_json(bytes).map_err(|e| unrecognized(go_words(&e), dump(bytes)))?,
        "application/yaml" => body::parse_yaml(bytes).map_err(|e| unrecognized(e, dump(bytes)))?,
        PROTOBUF if !custom => parse_protobuf(bytes).map_err(|why| {
            Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
        })?,
        _ => {
            let accepted = if custom { MEDIA_CUSTOM } else { MEDIA };
            let message =
                format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
            return Err(Status::new(415, "UnsupportedMediaType", message));
        }
    };
    if !parsed.value.is_object() {
        let found = type_word(&parsed.value);
        let why = format!(
            "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        );
        return Err(unrecognized(why, dump(bytes)));
    }
    Ok(parsed)
}

fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Clients match on the words of Go's parser.
fn go_words(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let text = error.to_string();
    if text.contains("recursion limit") { "invalid character '[' exceeded max depth".into() } else { text }
}

/// The start of a body: as text if it is short, else in hex.
fn dump(bytes: &[u8]) -> String {
    match bytes {
        [] => "<empty>".into(),
        [only] if only.is_ascii_graphic() => char::from(*only).to_string(),
        _ => {
            let shown: String = bytes.iter().take(30).map(|b| format!("{b:02x}")).collect();
            if bytes.len() > 30 { format!("{shown} ...") } else { shown }
        }
    }
}

/// Brings a parsed value to the form in which `resource` is handled, and says what was odd about it.
pub fn accept(
    resource: &Resource,
    parsed: Parsed,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let Parsed { mut value, duplicates } = parsed;
    check_kind(resource, &mut value)?;
    let mut doubts: Vec<String> = duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    let (kind, version) = (resource.kind.as_str(), resource.version.as_str());
    if resource.custom {
        doubts.extend(pintle_schema::prune::prune(resource.schema(), &mut value));
        drop_nulls_of_metadata(&mut value);
    } else {
        let decoded = pintle_schema::decode::decode(resource.schema(), value).map_err(|error| {
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
        })?;
        value = decoded.value;
        doubts.extend(decoded.unknown);
    }
    resource.default(&mut value);
    remark(resource, doubts, validation, warnings)?;
    Ok(value)
}

/// Says what was odd about a body, or refuses it for that.
fn remark(
    resource: &Resource,
    doubts: Vec<String>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    match validation {
        _ if doubts.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(doubts);
            Ok(())
        }
        FieldValidation::Strict => {
            let (kind, version, all) = (&resource.kind, &resource.version, doubts.join(", "));
            Err(Status::bad_request(if resource.custom {
                format!("strict decoding error: {all}")
            } else {
                format!("{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {all}")
            }))
        }
    }
}

/// An applied configuration, as it was written: who applies owns exactly what it says, zero values too. Its types and
/// fields are checked where it is merged.
pub fn accept_partial(
    resource: &Resource,
    parsed: Parsed,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let Parsed { mut value, duplicates } = parsed;
    check_kind(resource, &mut value)?;
    let doubts: Vec<String> = duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    remark(resource, doubts, validation, warnings)?;
    Ok(value)
}

/// Completes a merged object as if it had come in whole.
pub fn complete(resource: &Resource, value: Value) -> Result<Value, Status> {
    let parsed = Parsed { value, duplicates: Vec::new() };
    accept(resource, parsed, FieldValidation::Ignore, &mut Vec::new())
}

/// A body may leave out its kind and version; if it names them they must be the path's.
fn check_kind(resource: &Resource, value: &mut Value) -> Result<(), Status> {
    let (expected_kind, expected_version) = (resource.kind.as_str(), resource.api_version());
    let kind = object::kind(value).to_owned();
    let api_version = object::text(value, &["apiVersion"]).to_owned();
    if resource.custom && (kind.is_empty() || api_version.is_empty()) {
        let missing = if kind.is_empty() { "kind" } else { "apiVersion" };
        return Err(Status::bad_request(format!("Object '{}' is missing in '{value}'", title(missing))));
    }
    let (_, version) = pintle_meta::names::split_api_version(&api_version);
    if !api_version.is_empty() && api_version != expected_version {
        let message = if resource.custom {
            format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected_version})"
            )
        } else {
            let shown = if kind.is_empty() { expected_kind } else { &kind };
            format!(
                "{shown} in version {version:?} cannot be handled as a {expected_kind}: no kind {shown:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
            )
        };
        return Err(Status::bad_request(message));
    }
    if !kind.is_empty() && kind != expected_kind {
        let message = if resource.custom {
            format!("the kind in the data ({kind}) does not match the expected kind ({expected_kind})")
        } else {
            let package =
                if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or("core") };
            format!(
                "{kind} in version {version:?} cannot be handled as a {expected_kind}: converting ({version}.{kind}) to ({package}.{expected_kind}): unknown conversion"
            )
        };
        return Err(Status::bad_request(message));
    }
    let map = object::as_map(value);
    map.insert("kind".into(), expected_kind.into());
    map.insert("apiVersion".into(), expected_version.into());
    Ok(())
}

fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|c| c.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn drop_nulls_of_metadata(value: &mut Value) {
    object::metadata(value).retain(|_, v| !v.is_null());
}
