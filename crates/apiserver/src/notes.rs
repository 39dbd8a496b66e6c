//! What is learned about a call on its way: remarks for the client, annotations for the audit, its flow, the time it began.

use crate::flow::Line;
use http::{HeaderName, HeaderValue, Response, header};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::time::Instant;

/// All warnings of an answer together are no longer than this; if they would be, each is cut.
const MAX_WARNING_CHARS: usize = 4 * 1024;
/// What is left of a warning that is cut.
const CUT_WARNING_CHARS: usize = 256;
/// Which flow schema and which priority level a request belonged to, by their UIDs.
const FLOW_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-kubernetes-pf-flowschema-uid"),
    HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid"),
];

pub struct Notes {
    pub began: Instant,
    noted: Mutex<Noted>,
    line: OnceLock<Line>,
}

#[derive(Default)]
struct Noted {
    warnings: Vec<String>,
    annotations: BTreeMap<Cow<'static, str>, String>,
}

/// How much had been noted at some moment.
#[derive(Clone, Copy)]
pub struct Mark(usize);

impl Notes {
    pub fn new() -> Self {
        Notes { began: Instant::now(), noted: Mutex::default(), line: OnceLock::new() }
    }

    /// The flow that the call belongs to, in which it queues again for what it does after its answer began.
    pub fn flows(&self, line: Line) {
        let _ = self.line.set(line);
    }

    pub fn line(&self) -> Option<&Line> {
        self.line.get()
    }

    /// A remark that the client gets as a `Warning` header.
    pub fn warn(&self, warning: impl Into<String>) {
        self.noted().warnings.push(warning.into());
    }

    pub fn warn_all(&self, warnings: impl IntoIterator<Item = String>) {
        self.noted().warnings.extend(warnings);
    }

    /// A fact about the decision, under the name that audit logs use.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.noted().annotations.insert(key.into(), value.into());
    }

    pub fn annotation(&self, key: &str) -> Option<String> {
        self.noted().annotations.get(key).cloned()
    }

    pub fn mark(&self) -> Mark {
        Mark(self.noted().warnings.len())
    }

    /// Forgets the remarks of an attempt that is made again.
    pub fn rewind(&self, mark: Mark) {
        self.noted().warnings.truncate(mark.0);
    }

    /// Adds the remarks to an answer, each once, as many as fit.
    pub fn tell<B>(&self, response: &mut Response<B>) {
        for (name, uid) in FLOW_HEADERS.into_iter().zip(self.line().into_iter().flat_map(Line::uids)) {
            response.headers_mut().insert(name, uid.clone());
        }
        let noted = self.noted();
        let mut seen: HashSet<&str> = HashSet::new();
        let distinct: Vec<&str> = noted.warnings.iter().map(String::as_str).filter(|w| seen.insert(w)).collect();
        let all: usize = distinct.iter().map(|warning| warning.chars().count()).sum();
        let longest = if all > MAX_WARNING_CHARS { CUT_WARNING_CHARS } else { MAX_WARNING_CHARS };
        let mut written = 0;
        for warning in distinct {
            if written >= MAX_WARNING_CHARS {
                return;
            }
            let shown: String = warning.chars().take(longest).collect();
            written += shown.chars().count();
            let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
            // A text with control characters is not a header.
            if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                response.headers_mut().append(header::WARNING, header);
            }
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Notes {
    fn default() -> Self {
        Notes::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_do_not_outgrow_a_header() {
        let headers = |warnings: &[String]| {
            let notes = Notes::new();
            notes.warn_all(warnings.iter().cloned());
            let mut response = Response::new(());
            notes.tell(&mut response);
            response.headers().get_all(header::WARNING).iter().map(|v| v.as_bytes().len()).collect::<Vec<_>>()
        };
        assert_eq!(headers(&["a".to_owned(), "é\"".to_owned(), "a".to_owned(), "b\nc".to_owned()]), [9, 12]);
        let many: Vec<String> = (0..50_000).map(|i| format!("{i:0>1000}")).collect();
        let sizes = headers(&many);
        assert_eq!(sizes.len(), MAX_WARNING_CHARS / CUT_WARNING_CHARS);
    }

    #[test]
    fn an_attempt_that_is_made_again_warns_once() {
        let notes = Notes::new();
        notes.warn("first");
        let mark = notes.mark();
        notes.warn("of the attempt");
        notes.rewind(mark);
        let mut response = Response::new(());
        notes.tell(&mut response);
        assert_eq!(response.headers().get_all(header::WARNING).iter().count(), 1);
    }
}
