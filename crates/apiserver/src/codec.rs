//! An object is encoded once, when it is written: here. What stands in memory is what goes on the wire.
//!
//! The encoding starts with a head that is the same for every object of a kind, and leaves a hole where the commit
//! writes the revision:
//!
//! ```text
//! {"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"…","resourceVersion":"▯",…},…}
//! └─────────── head ─────────────┘                                                                    └ hole
//! ```
//!
//! A list of a built-in kind shows its items without `kind` and `apiVersion`: it cuts the head off.

use pintle_meta::{Status, object};
use pintle_store::Splice;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// `{"kind":"Pod","apiVersion":"v1",`
pub fn head(kind: &str, api_version: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",")
}

pub fn encode(object: &Value) -> Splice {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(head(object::kind(object), object::text(object, &["apiVersion"])).as_bytes());
    out.extend_from_slice(b"\"metadata\":{");
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    for key in ["name", "namespace", "uid"] {
        if let Some(value) = metadata.get(key) {
            write_member(&mut out, key, value);
            out.push(b',');
        }
    }
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let hole = out.len();
    out.push(b'"');
    for (key, value) in metadata {
        if !matches!(key.as_str(), "name" | "namespace" | "uid" | "resourceVersion") {
            out.push(b',');
            write_member(&mut out, key, value);
        }
    }
    out.push(b'}');
    for (key, value) in object.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
            out.push(b',');
            write_member(&mut out, key, value);
        }
    }
    out.push(b'}');
    Splice::new(out, Some(hole))
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing a Value into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// What stood in the store, as a value. Only our own encoding is ever read here. Of an object that does not read, its kind
/// and metadata are what readers see; writes use [`decode_whole`].
pub fn decode(bytes: &[u8]) -> Value {
    decode_whole(bytes).unwrap_or_else(|_| {
        let mut known = Map::new();
        for key in ["kind", "apiVersion"] {
            if let Some(text) = member(bytes, key).and_then(|raw| serde_json::from_str(raw).ok()) {
                known.insert(key.to_owned(), text);
            }
        }
        if let Some(metadata) = metadata(bytes).and_then(|raw| serde_json::from_str(raw).ok()) {
            known.insert("metadata".to_owned(), metadata);
        }
        Value::Object(known)
    })
}

/// The same for a write: what cannot be read whole is neither changed nor deleted.
pub fn decode_whole(bytes: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "an object in the store does not read; its checksum was right");
        Status::internal(format!("the stored object cannot be decoded: {error}"))
    })
}

/// One more guard behind those of the request: an object that would not read back is not stored.
pub fn check_nesting(object: &Value) -> Result<(), Status> {
    if object::nests_deeper_than(object, object::MAX_STORED_NESTING) {
        return Err(Status::bad_request(format!(
            "the object nests deeper than {} levels with its defaults and managed fields",
            object::MAX_STORED_NESTING
        )));
    }
    Ok(())
}

/// The metadata of what stood in the store, as it stands there. It follows the head, in which nothing can be taken for its
/// name: neither kinds nor versions have quotes.
pub fn metadata(bytes: &[u8]) -> Option<&str> {
    member(bytes, "metadata")
}

fn member<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    let name = format!("\"{name}\":");
    let start = bytes.windows(name.len()).position(|part| part == name.as_bytes())? + name.len();
    let mut values = serde_json::Deserializer::from_slice(bytes.get(start..)?).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_encoded_reads_back_the_same() {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"a": 1}});
        let splice = encode(&pod);
        let (bytes, hole) = splice.parts();
        let mut bytes = bytes.to_vec();
        bytes.splice(hole.unwrap()..hole.unwrap(), *b"42");
        let mut expected = pod;
        expected["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(decode(&bytes), expected);
        assert!(bytes.starts_with(head("Pod", "v1").as_bytes()));
        let cut = metadata(&bytes).map(|metadata| decode(metadata.as_bytes()));
        assert_eq!(cut.as_ref(), expected.get("metadata"));
        assert_eq!(metadata(b"{\"kind\":\"Pod\"}"), None);
    }

    #[test]
    fn an_object_that_does_not_read_keeps_its_finalizers() {
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let stored =
            json!({"kind": "A", "apiVersion": "b/v1", "metadata": {"name": "x", "finalizers": ["c/d"]}, "spec": deep});
        let splice = encode(&stored);
        let (bytes, _) = splice.parts();
        let seen = decode(bytes);
        assert_eq!((seen["kind"].as_str(), seen["metadata"]["finalizers"][0].as_str()), (Some("A"), Some("c/d")));
        assert_eq!(decode_whole(bytes).unwrap_err().code, 500);
        assert_eq!(check_nesting(&stored).unwrap_err().code, 400);
    }
}
