//! How our keys are called in etcd: with the prefix before them, and beside one key that is not data.

use bytes::Bytes;

use crate::Range;

/// The key behind the prefix that is written only to see its event come back.
const MARKER: &str = "/registry/pintle.dev/sync";

/// The names of keys on either side.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    marker: Bytes,
}

impl Keys {
    pub(super) fn new(prefix: String) -> Self {
        let marker = Bytes::from(format!("{prefix}{MARKER}"));
        Self { prefix, marker }
    }

    /// Whether every key of etcd is ours, so that each of its revisions comes with an event.
    pub(super) fn are_all(&self) -> bool {
        self.prefix.is_empty()
    }

    pub(super) fn marker(&self) -> Bytes {
        self.marker.clone()
    }

    pub(super) fn in_etcd(&self, key: &str) -> Bytes {
        Bytes::from(format!("{}{key}", self.prefix))
    }

    /// Our name for a key of etcd; `None` for the marker, and for bytes that are no text and so were
    /// not written by us.
    pub(super) fn name<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        if key == self.marker {
            return None;
        }
        std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix).filter(|name| !name.is_empty())
    }

    /// The first key of a range, and the first behind it, as etcd wants them.
    pub(super) fn bounds(&self, range: &Range) -> (Bytes, Bytes) {
        let start = self.in_etcd(&range.start);
        // A single zero byte is etcd's word for the smallest key, and as an end for no end.
        let start = if start.is_empty() { Bytes::from_static(b"\0") } else { start };
        let end = if range.end.is_empty() { self.end() } else { self.in_etcd(&range.end) };
        (start, end)
    }

    /// Whether a range between such bounds has the marker in it.
    pub(super) fn marker_is_in(&self, (start, end): &(Bytes, Bytes)) -> bool {
        *start <= self.marker && (&**end == b"\0" || self.marker < *end)
    }

    fn end(&self) -> Bytes {
        let mut end = self.prefix.clone().into_bytes();
        match end.last_mut() {
            None => return Bytes::from_static(b"\0"),
            // Text has no byte 255, so there is always a next one.
            Some(last) => *last += 1,
        }
        Bytes::from(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clusters_keys_are_not_taken_for_ours() {
        let keys = Keys::new("/a".to_owned());
        let (start, end) = keys.bounds(&Range::prefix(""));
        assert_eq!((&*start, &*end), (&b"/a"[..], &b"/b"[..]));
        assert_eq!(keys.name(b"/a/registry/pods/x"), Some("/registry/pods/x"));
        assert_eq!(keys.name(b"/b/registry/pods/x"), None);
        assert_eq!(keys.name(b"/a\xff"), None);
        assert_eq!(keys.name(&keys.marker()), None);
        assert!(keys.marker_is_in(&(start, end)));
        assert!(!keys.marker_is_in(&keys.bounds(&Range::prefix("/registry/pods/"))));
    }

    #[test]
    fn without_a_prefix_everything_is_read() {
        let keys = Keys::new(String::new());
        let (start, end) = keys.bounds(&Range::prefix(""));
        assert_eq!((&*start, &*end), (&b"\0"[..], &b"\0"[..]));
        assert!(keys.are_all() && keys.marker_is_in(&(start, end)));
    }
}
