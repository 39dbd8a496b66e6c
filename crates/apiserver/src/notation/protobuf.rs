//! Protobuf: built-in kinds in their envelopes, from the JSON that is stored.

use super::{Items, List};
use crate::catalogue::type_name;
use bytes::Bytes;
use pintle_meta::names::split_api_version;
use pintle_meta::{Status, object};
use pintle_schema::protobuf::envelope::{self, Body};
use pintle_schema::protobuf::{ProtobufError, has_message};
use serde::Deserialize;
use serde_json::Value;

/// A long list is kept in pieces of about this many bytes until its length is known.
const PIECE_BYTES: usize = 128 * 1024;

pub fn object(json: &[u8]) -> Result<Bytes, Status> {
    let about = TypeMeta::of(json).ok_or_else(|| Status::internal("the object names no kind"))?;
    seal(&about, json)
}

pub fn value(value: &Value) -> Result<Bytes, Status> {
    let about = TypeMeta { kind: object::kind(value).into(), api_version: object::text(value, &["apiVersion"]).into() };
    seal(&about, value.to_string().as_bytes())
}

/// A framed event.
pub fn event(kind: &str, json: &[u8]) -> Result<Vec<u8>, Status> {
    let about = TypeMeta::of(json).ok_or_else(|| Status::internal("the object names no kind"))?;
    let type_name = about.type_name()?;
    let body = Body { api_version: &about.api_version, kind: &about.kind, type_name: &type_name };
    let mut out = Vec::with_capacity(json.len());
    body.event(kind, json, &mut out).map_err(unwritable)?;
    Ok(out)
}

fn seal(about: &TypeMeta<'_>, json: &[u8]) -> Result<Bytes, Status> {
    let type_name = about.type_name()?;
    let body = Body { api_version: &about.api_version, kind: &about.kind, type_name: &type_name };
    let mut out = Vec::with_capacity(json.len());
    body.seal(json, &mut out).map_err(unwritable)?;
    Ok(out.into())
}

/// What was stored is checked against its type: this is a bug, or a store that somebody else wrote to.
fn unwritable(error: ProtobufError) -> Status {
    Status::internal(error.to_string())
}

/// What an object says that it is.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct TypeMeta<'a> {
    #[serde(borrow, default)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: std::borrow::Cow<'a, str>,
}

impl<'a> TypeMeta<'a> {
    fn of(json: &'a [u8]) -> Option<Self> {
        TypeMeta::of_head(json).or_else(|| serde_json::from_slice(json).ok())
    }

    /// Stored objects begin with their kind and version, which need no quoting.
    fn of_head(json: &'a [u8]) -> Option<Self> {
        let rest = json.strip_prefix(b"{\"kind\":\"")?;
        let (kind, rest) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'"')?)?;
        let rest = rest.strip_prefix(b"\",\"apiVersion\":\"")?;
        let api_version = rest.get(..rest.iter().position(|byte| *byte == b'"')?)?;
        let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\\'));
        Some(TypeMeta { kind: text(kind)?.into(), api_version: text(api_version)?.into() })
    }

    /// The type whose message it is. Kinds of the API machinery belong to every group.
    fn type_name(&self) -> Result<String, Status> {
        const OF_EVERY_GROUP: [&str; 5] = ["Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"];
        let (group, version) = split_api_version(&self.api_version);
        let name = match &*self.kind {
            kind if group == "meta.k8s.io" || (group.is_empty() && OF_EVERY_GROUP.contains(&kind)) => {
                type_name("meta", "v1", kind)
            }
            kind => type_name(group, version, kind),
        };
        if has_message(&name) { Ok(name) } else { Err(super::negotiate::not_acceptable()) }
    }
}

/// A list. Its length stands before it, so all of it is there before the first byte is sent.
pub struct ListWriter {
    kind: String,
    api_version: String,
    type_name: String,
    out: Vec<u8>,
    pieces: Vec<Bytes>,
}

impl ListWriter {
    pub fn new(list: &List<'_>) -> Result<Self, Status> {
        let Items::Objects { type_name, .. } = list.items else {
            return Err(super::negotiate::not_acceptable());
        };
        let mut out = Vec::with_capacity(PIECE_BYTES / 8);
        envelope::list_metadata(list.metadata.to_string().as_bytes(), &mut out).map_err(unwritable)?;
        Ok(ListWriter {
            kind: list.kind.to_owned(),
            api_version: list.api_version.to_owned(),
            type_name: type_name.to_owned(),
            out,
            pieces: Vec::new(),
        })
    }

    pub fn item(&mut self, json: &[u8]) -> Result<(), Status> {
        envelope::list_item(&self.type_name, json, &mut self.out).map_err(unwritable)?;
        if self.out.len() >= PIECE_BYTES {
            let piece = std::mem::replace(&mut self.out, Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8));
            self.pieces.push(piece.into());
        }
        Ok(())
    }

    pub fn finish(self) -> Vec<Bytes> {
        let ListWriter { kind, api_version, type_name, mut out, pieces } = self;
        let length = out.len() + pieces.iter().map(Bytes::len).sum::<usize>();
        let list = Body { api_version: &api_version, kind: &kind, type_name: &type_name };
        let mut whole = Vec::with_capacity(pieces.len() + 2);
        let mut head = Vec::with_capacity(64);
        list.list_head(length, &mut head);
        whole.push(head.into());
        whole.extend(pieces);
        envelope::tail(&mut out);
        whole.push(out.into());
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_read_from_the_head_or_from_anywhere() {
        let meta = |json: &'static str| {
            TypeMeta::of(json.as_bytes()).map(|m| (m.kind.into_owned(), m.api_version.into_owned()))
        };
        let pod = Some(("Pod".to_owned(), "v1".to_owned()));
        assert_eq!(meta(r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#), pod);
        assert_eq!(meta(r#"{"apiVersion":"v1","items":[{"kind":"x"}],"kind":"Pod"}"#), pod);
        assert_eq!(meta(r#"{"kind":"P\u006fd","apiVersion":"v1"}"#), pod);
        assert_eq!(meta("7"), None);
        let name = |kind: &'static str, api_version: &'static str| {
            TypeMeta { kind: kind.into(), api_version: api_version.into() }.type_name().ok()
        };
        assert_eq!(name("Role", "rbac.authorization.k8s.io/v1").as_deref(), Some("rbac.v1.Role"));
        assert_eq!(name("Status", "v1").as_deref(), Some("meta.v1.Status"));
        assert_eq!(name("APIVersions", "").as_deref(), Some("meta.v1.APIVersions"));
        assert_eq!(name("PartialObjectMetadata", "meta.k8s.io/v1").as_deref(), Some("meta.v1.PartialObjectMetadata"));
        assert_eq!(name("Table", "meta.k8s.io/v1"), None);
        assert_eq!(name("Widget", "example.com/v1"), None);
    }
}
