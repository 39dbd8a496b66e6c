//! One write, packed: all its words stand in one piece of memory, so that thousands of them cost little.

use super::header::{self, Cause};
use jiff::Timestamp;
use pintle_meta::{clock, object};
use serde_json::{Value, json};

/// What a write did to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Created,
    Updated,
    /// Its deletion began; finalizers or a grace period still hold it.
    Marked,
    Deleted,
}

impl Effect {
    /// What made `new` of `old`.
    pub fn of(old: Option<&Value>, new: &Value) -> Self {
        match old {
            None => Effect::Created,
            Some(old) if object::is_being_deleted(new) && !object::is_being_deleted(old) => Effect::Marked,
            Some(_) => Effect::Updated,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Created => "created",
            Effect::Updated => "updated",
            Effect::Marked => "marked",
            Effect::Deleted => "deleted",
        }
    }
}

/// The words of a record. `paths` are separated by line ends, `cause` is as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    pub subresource: &'a str,
    pub group: &'a str,
    pub kind: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub user: &'a str,
    pub agent: &'a str,
    pub paths: &'a str,
    pub cause: &'a str,
    /// The `traceparent` of the request, or of the write that caused it; empty if there is none.
    pub trace: &'a str,
}

const COUNT: usize = 12;
/// Users and agents name themselves; what is longer is cut.
const LONGEST_NAME: usize = 256;

/// A write that was committed.
///
/// ```text
/// text  "appsReplicaSetreplicasetsdefaultweb…"      ends  [0, 4, 14, 25, 32, 35, …]
/// ```
#[derive(Debug)]
pub struct Record {
    pub revision: u64,
    pub time: Timestamp,
    pub verb: &'static str,
    pub effect: Effect,
    ends: [u32; COUNT],
    text: Box<str>,
}

impl Record {
    pub fn new(revision: u64, time: Timestamp, verb: &'static str, effect: Effect, fields: &Fields<'_>) -> Self {
        let Fields { subresource, group, kind, resource, namespace, name, uid, user, agent, paths, cause, trace } =
            fields;
        let (user, agent) = (cut(user), cut(agent));
        let words = [subresource, group, kind, resource, namespace, name, uid, user, agent, paths, cause, trace];
        let mut text = String::with_capacity(words.iter().map(|word| word.len()).sum());
        let mut ends = [0; COUNT];
        for (end, word) in ends.iter_mut().zip(words) {
            text.push_str(word);
            // Every word is bounded by the largest request.
            *end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        }
        Record { revision, time, verb, effect, ends, text: text.into_boxed_str() }
    }

    pub fn fields(&self) -> Fields<'_> {
        let mut start = 0;
        let mut words = self.ends.iter().map(|end| {
            let end = *end as usize;
            let word = self.text.get(start..end).unwrap_or_default();
            start = end;
            word
        });
        let mut next = || words.next().unwrap_or_default();
        Fields {
            subresource: next(),
            group: next(),
            kind: next(),
            resource: next(),
            namespace: next(),
            name: next(),
            uid: next(),
            user: next(),
            agent: next(),
            paths: next(),
            cause: next(),
            trace: next(),
        }
    }

    pub fn cause(&self) -> Option<Cause<'_>> {
        header::read(self.fields().cause)
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }

    /// As it is served; what is empty is left out.
    pub fn to_value(&self) -> Value {
        let fields = self.fields();
        let mut shown = json!({
            "revision": self.revision.to_string(),
            "time": clock::rfc3339_micro(self.time),
            "verb": self.verb,
            "effect": self.effect.as_str(),
        });
        let words = [
            ("subresource", fields.subresource),
            ("group", fields.group),
            ("kind", fields.kind),
            ("resource", fields.resource),
            ("namespace", fields.namespace),
            ("name", fields.name),
            ("uid", fields.uid),
            ("user", fields.user),
            ("agent", fields.agent),
            ("traceparent", fields.trace),
        ];
        for (key, word) in words.into_iter().filter(|(_, word)| !word.is_empty()) {
            shown[key] = word.into();
        }
        if !fields.paths.is_empty() {
            shown["paths"] = fields.paths.lines().collect();
        }
        if let Some(cause) = self.cause() {
            shown["cause"] = json!(cause);
        }
        shown
    }
}

fn cut(word: &str) -> &str {
    if word.len() <= LONGEST_NAME { word } else { &word[..word.floor_char_boundary(LONGEST_NAME)] }
}
