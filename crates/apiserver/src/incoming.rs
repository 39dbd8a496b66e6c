//! A body on its way in: read, recognised, checked against its schema, completed, and turned into the stored version.

use crate::catalogue::Resource;
use crate::notes::Notes;
use crate::parse::{self, Duplicates, Parsed};
use crate::request::Query;
use http::HeaderMap;
use pintle_meta::{Status, object};
use pintle_schema::protobuf;
use pintle_schema::strict::Findings;
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
fn parse_protobuf(bytes: &[u8]) -> Result<Parsed<'static>, String> {
    let envelope = protobuf::open(bytes).map_err(|e| e.to_string())?;
    let (group, version) = pintle_meta::names::split_api_version(envelope.api_version);
    let type_name = match envelope.kind {
        // Options are of every group.
        "DeleteOptions" => "meta.v1.DeleteOptions".to_owned(),
        kind => crate::catalogue::type_name(group, version, kind),
    };
    let mut value = protobuf::decode(&type_name, envelope.raw).map_err(|e| e.to_string())?;
    let map = object::as_map(&mut value);
    map.insert("apiVersion".into(), envelope.api_version.into());
    map.insert("kind".into(), envelope.kind.into());
    // JSON inside protobuf is read on its own.
    if object::nests_deeper_than(&value, object::MAX_STORED_NESTING) {
        return Err(parse::TOO_DEEP.to_owned());
    }
    Ok(Parsed::sound(value))
}

pub fn media_type(headers: &HeaderMap) -> String {
    let header = headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads the body by its media type. `kind` is what the path expects, for the errors.
pub fn read<'a>(headers: &HeaderMap, bytes: &'a [u8], kind: &str, custom: bool) -> Result<Parsed<'a>, Status> {
    let media = media_type(headers);
    let unrecognized = |why: String, shown: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({shown})"
        ))
    };
    let parsed = match media.as_str() {
        "application/json" | "" => parse::json(bytes).map_err(|e| unrecognized(go_words(&e), dump(bytes)))?,
        "application/yaml" => parse::yaml(bytes).map_err(|e| unrecognized(e, dump(bytes)))?,
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
    let too_deep = text.contains("recursion limit") || text.contains(parse::TOO_DEEP);
    if too_deep { format!("invalid character '[' {}", parse::TOO_DEEP) } else { text }
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
    parsed: Parsed<'_>,
    validation: FieldValidation,
    notes: &Notes,
) -> Result<Value, Status> {
    let Parsed { mut value, duplicates, text } = parsed;
    check_kind(resource, &mut value)?;
    check_nesting(&value)?;
    let (kind, version) = (resource.kind.as_str(), resource.version.as_str());
    let unreadable = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
    };
    let doubts = if resource.custom {
        let unknown = pintle_schema::prune::prune(resource.schema(), &mut value);
        pintle_schema::coerce::coerce(resource.schema(), &mut value).map_err(|error| unreadable(&error))?;
        Doubts::of(duplicates, unknown)
    } else {
        let decoded = pintle_schema::decode::decode(resource.schema(), value).map_err(|error| unreadable(&error))?;
        value = decoded.value;
        Doubts::of_typed(duplicates, decoded.unknown, text)
    };
    resource.default(&mut value)?;
    remark(resource, doubts, validation, notes)?;
    Ok(value)
}

/// What was odd about a body, in the words of a warning and in those of a refusal.
pub struct Doubts {
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

impl Doubts {
    fn of(duplicates: Duplicates, unknown: Vec<String>) -> Self {
        let (mut warnings, mut errors) = (duplicates.messages(), duplicates.errors());
        warnings.extend(unknown.iter().cloned());
        errors.extend(unknown);
        Doubts { warnings, errors }
    }

    /// Fields of a typed JSON object are reported in the order in which they were sent.
    pub fn of_typed(duplicates: Duplicates, unknown: Findings, text: Option<&[u8]>) -> Self {
        match (duplicates, text) {
            (Duplicates::Fields(fields), Some(text)) if !(fields.is_empty() && unknown.is_empty()) => {
                let all = fields.into_vec().into_iter().chain(unknown.into_vec()).collect();
                let messages: Vec<String> =
                    parse::in_document_order(text, all).iter().map(ToString::to_string).collect();
                Doubts { warnings: messages.clone(), errors: messages }
            }
            (duplicates, _) => Doubts::of(duplicates, unknown.messages()),
        }
    }
}

/// One limit for every notation and for what patches make: what is stored reads back, also inside a list or an event.
/// Managed fields repeat the nesting of the object, below themselves.
fn check_nesting(value: &Value) -> Result<(), Status> {
    let limit = object::MAX_NESTING;
    let too_deep = |(key, below): (&String, &Value)| match (key.as_str(), below) {
        ("metadata", Value::Object(metadata)) => {
            metadata.iter().any(|(key, below)| key != "managedFields" && object::nests_deeper_than(below, limit - 2))
        }
        _ => object::nests_deeper_than(below, limit - 1),
    };
    if value.as_object().into_iter().flatten().any(too_deep) {
        return Err(Status::bad_request(format!(
            "the object {} of {limit}: its fields nest too deep",
            parse::TOO_DEEP
        )));
    }
    Ok(())
}

/// Says what was odd about a body, or refuses it for that.
fn remark(resource: &Resource, doubts: Doubts, validation: FieldValidation, notes: &Notes) -> Result<(), Status> {
    match validation {
        _ if doubts.errors.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            notes.warn_all(doubts.warnings);
            Ok(())
        }
        FieldValidation::Strict => {
            let (kind, version, all) = (&resource.kind, &resource.version, doubts.errors.join(", "));
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
    parsed: Parsed<'_>,
    validation: FieldValidation,
    notes: &Notes,
) -> Result<Value, Status> {
    let Parsed { mut value, duplicates, .. } = parsed;
    check_kind(resource, &mut value)?;
    let doubts = Doubts::of(duplicates, Vec::new());
    match validation {
        FieldValidation::Strict if !doubts.errors.is_empty() => {
            let all = doubts.errors.join(", ");
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {all}"
            )));
        }
        FieldValidation::Warn => notes.warn_all(doubts.warnings),
        _ => {}
    }
    Ok(value)
}

/// Completes a merged object as if it had come in whole.
pub fn complete(resource: &Resource, value: Value) -> Result<Value, Status> {
    accept(resource, Parsed::sound(value), FieldValidation::Ignore, &Notes::new())
}

/// The same for an object that somebody else changed on its way: what its types do not know is dropped, what does not fit is said.
pub fn recode(resource: &Resource, mut value: Value) -> Result<Value, String> {
    check_kind(resource, &mut value).and_then(|()| check_nesting(&value)).map_err(|status| status.message)?;
    if resource.custom {
        pintle_schema::prune::prune(resource.schema(), &mut value);
        pintle_schema::coerce::coerce(resource.schema(), &mut value).map_err(|error| error.to_string())?;
    } else {
        let decoded = pintle_schema::decode::decode(resource.schema(), value).map_err(|error| error.to_string())?;
        value = decoded.value;
    }
    resource.default(&mut value).map_err(|status| status.message)?;
    Ok(value)
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
