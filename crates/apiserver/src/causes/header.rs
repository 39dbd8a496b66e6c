//! The header in which a loop says why it writes: ASCII JSON of at most 4 KiB.
//!
//! ```text
//! {"loop":"replicaset-controller","key":"default/web","attempt":1,"because":[
//!   {"event":"updated","group":"apps","kind":"ReplicaSet","namespace":"default","name":"web","uid":"…",
//!    "revision":"123","writer":"kubectl","paths":["spec.replicas"]}]}
//! ```
//!
//! Any member may be missing; members that are not known here are not shown.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub const HEADER: &str = "pintle-cause";
const LARGEST: usize = 4096;
const MOST_REASONS: usize = 8;
const MOST_PATHS: usize = 32;

/// Why a loop wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause<'a> {
    #[serde(rename = "loop", borrow, skip_serializing_if = "str::is_empty")]
    pub actor: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Because<'a>>,
}

/// One event that woke the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Because<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub group: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub uid: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub revision: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub writer: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    Added,
    Updated,
    Deleted,
    Resync,
    Timer,
    Retry,
}

/// Reads a cause; none when it is too large or not what it should be.
pub fn read(text: &str) -> Option<Cause<'_>> {
    // A list would be read too, as members without names.
    if !text.starts_with('{') || text.len() > LARGEST {
        return None;
    }
    let cause: Cause<'_> = serde_json::from_str(text).ok()?;
    let bounded = cause.because.len() <= MOST_REASONS && cause.because.iter().all(|b| b.paths.len() <= MOST_PATHS);
    bounded.then_some(cause)
}

/// Whether a header is worth keeping.
pub(super) fn is_sound(text: &str) -> bool {
    read(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_and_shown_as_it_was_sent() {
        let sent = r#"{"loop":"rs","key":"d/web","attempt":1,"because":[{"event":"updated","group":"apps","kind":"ReplicaSet","namespace":"d","name":"web","uid":"u","revision":"12","writer":"kubectl","paths":["spec.replicas"]}]}"#;
        let cause = read(sent).unwrap();
        assert_eq!(serde_json::to_string(&cause).unwrap(), sent);
        assert_eq!(read("{}").unwrap(), Cause::default());
        assert_eq!(read(r#"{"loop":"caf\u00e9","more":[1]}"#).unwrap().actor, "café");
    }

    #[test]
    fn what_is_no_cause_is_not_kept() {
        let many = format!(r#"{{"because":[{}]}}"#, ["{}"; 9].join(","));
        let large = format!(r#"{{"loop":"{}"}}"#, "x".repeat(LARGEST));
        let paths = format!(r#"{{"because":[{{"paths":[{}]}}]}}"#, ["\"a\""; 33].join(","));
        let nested = "[".repeat(4000);
        for text in [
            "",
            "null",
            "[]",
            "x",
            r#"{"attempt":-1}"#,
            r#"{"because":[{"event":"boom"}]}"#,
            &many,
            &large,
            &paths,
            &nested,
        ] {
            assert_eq!(read(text), None, "{text:.60}");
        }
    }
}
