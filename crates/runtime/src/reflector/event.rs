//! The lines of a watch: one event each.

use std::collections::BTreeMap;
use std::pin::Pin;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::Client;
use kube::core::Status;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;

use super::unreadable::Unreadable;
use super::{Reading, Seen};

/// The room for a line that is kept from one to the next, at most.
const LARGE: usize = 16 << 10;

/// On the bookmark after which a watch that began with everything goes on with changes.
const ENDS_LIST: &str = "k8s.io/initial-events-end";

/// An answer that goes on, line by line.
pub(super) struct Lines {
    answer: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
}

/// What a line says.
#[derive(Debug)]
pub(super) enum Event {
    Applied(Seen),
    Deleted(Seen),
    /// An object was written, or deleted, that cannot be decoded.
    Unreadable {
        object: Unreadable,
        is_deleted: bool,
    },
    /// Everything up to this version was told; with it, perhaps, the list that a watch began with.
    Bookmark {
        version: String,
        ends_list: bool,
    },
    Failed(Box<Status>),
}

impl Lines {
    pub(super) async fn open(client: &Client, mut request: http::Request<Vec<u8>>) -> Result<Lines, kube::Error> {
        // Packed streams hold events back until there is enough to pack.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = client.request_stream(request).await?;
        Ok(Lines { answer: Box::pin(answer), line: Vec::new() })
    }

    /// The next line; `None` at the end. A line that was cut off is none: the server will tell it again.
    ///
    /// May be dropped while it waits: what has come of a line is kept.
    pub(super) async fn next(&mut self) -> Result<Option<&str>, kube::Error> {
        if self.line.last() == Some(&b'\n') {
            self.line.clear();
            self.line.shrink_to(LARGE);
        }
        match self.answer.read_until(b'\n', &mut self.line).await {
            Ok(0) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(kube::Error::ReadEvents(error)),
            Ok(_) => {}
        }
        let is_whole = self.line.last() == Some(&b'\n');
        let line = std::str::from_utf8(&self.line).map_err(|_| broken("an event that is not text"))?;
        Ok(Some(line).filter(|line| is_whole || line.ends_with('}')))
    }
}

impl Event {
    pub(super) fn read(line: &str, reading: Reading) -> Result<Event, kube::Error> {
        if let Some((kind, object)) = usual(line)
            && let Ok(event) = Event::of(kind, object, reading)
        {
            return Ok(event);
        }
        if let Ok(Parts { kind, object }) = serde_json::from_str(line) {
            return Event::of(kind, object.get(), reading);
        }
        // Servers have been seen to answer a watch with a bare Status.
        let status: Status = decode(line)?;
        if status.code == 0 { Err(broken("a line that is no event")) } else { Ok(Event::Failed(status.into())) }
    }

    fn of(kind: &str, object: &str, reading: Reading) -> Result<Event, kube::Error> {
        Ok(match kind {
            "ADDED" | "MODIFIED" => {
                reading.read(object).map(Event::Applied).or_else(|error| skipped(object, false, error))?
            }
            "DELETED" => reading.read(object).map(Event::Deleted).or_else(|error| skipped(object, true, error))?,
            "BOOKMARK" => {
                let BookmarkMeta { resource_version: version, annotations } = decode::<Bookmark>(object)?.metadata;
                let ends_list = annotations.is_some_and(|all| all.get(ENDS_LIST).is_some_and(|value| value == "true"));
                Event::Bookmark { version, ends_list }
            }
            "ERROR" => Event::Failed(decode(object)?),
            other => return Err(broken(&format!("an event of the unknown type {other:?}"))),
        })
    }
}

fn skipped(object: &str, is_deleted: bool, error: kube::Error) -> Result<Event, kube::Error> {
    let object = Unreadable::of(object, &error).ok_or(error)?;
    Ok(Event::Unreadable { object, is_deleted })
}

/// The two parts of an event as all servers write it.
fn usual(line: &str) -> Option<(&str, &str)> {
    let (kind, object) = line.strip_prefix(r#"{"type":""#)?.split_once(r#"","object":"#)?;
    Some((kind, object.trim_end().strip_suffix('}')?))
}

/// The same, however it is written.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, kube::Error> {
    serde_json::from_str(text).map_err(kube::Error::SerdeError)
}

fn broken(what: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(what))
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use pintle_kinds::{Kind, typed};

    use super::*;

    fn read(line: &str) -> Result<Event, kube::Error> {
        Event::read(line, Reading { codec: ConfigMap::CODEC, drops_fields: true })
    }

    #[test]
    fn an_event_is_read_whichever_of_its_two_parts_comes_first() {
        let object = r#"{"metadata":{"name":"a"}, "data":{"type":"\",\"object\":"}}"#;
        for line in [
            format!(r#"{{"type":"ADDED","object":{object}}}"#) + "\n",
            format!(r#"{{"object":{object}, "type":"ADDED"}}"#),
            format!(r#" {{ "new":[], "type" : "ADDED", "object" : {object} }} "#),
            format!(r#"{{"type":"ADDED","object":{object},"new":1}}"#),
        ] {
            let Ok(Event::Applied(seen)) = read(&line) else { panic!("{line}") };
            let map = typed::<ConfigMap>(&seen.object).unwrap();
            assert_eq!(map.metadata.name.as_deref(), Some("a"));
            assert_eq!(map.data.as_ref().unwrap()["type"], "\",\"object\":");
        }
    }

    #[test]
    fn a_condition_without_a_time_does_not_end_the_watch_of_its_kind() {
        let object = r#"{"metadata":{"name":"a"},"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"",
            "lastTransitionTime":null}]}}"#;
        let reading = Reading { codec: Service::CODEC, drops_fields: true };
        let event = Event::read(&format!(r#"{{"type":"MODIFIED","object":{object}}}"#), reading);
        assert!(matches!(event, Ok(Event::Applied(service)) if service.meta().name.as_deref() == Some("a")));
    }

    #[test]
    fn an_object_that_cannot_be_read_is_told_by_its_name() {
        let object = r#"{"metadata":{"name":"a","namespace":"shop","resourceVersion":"7"},"data":3}"#;
        for (kind, deleted) in [("ADDED", false), ("MODIFIED", false), ("DELETED", true)] {
            let event = read(&format!(r#"{{"type":"{kind}","object":{object}}}"#));
            let Ok(Event::Unreadable { object, is_deleted }) = event else { panic!("{event:?}") };
            assert_eq!((object.key, object.version.as_str()), (crate::Key::new("shop", "a"), "7"));
            assert!(is_deleted == deleted && object.error.contains("expected a map"), "{}", object.error);
        }
    }

    #[test]
    fn every_type_of_event_is_what_it_is() {
        let object = r#""object":{"metadata":{"name":"a","resourceVersion":"7"}}"#;
        assert!(matches!(read(&format!(r#"{{"type":"MODIFIED",{object}}}"#)), Ok(Event::Applied(_))));
        assert!(matches!(read(&format!(r#"{{"type":"DELETED",{object}}}"#)), Ok(Event::Deleted(_))));
        assert!(
            matches!(read(&format!(r#"{{"type":"BOOKMARK",{object}}}"#)), Ok(Event::Bookmark { version, ends_list: false }) if version == "7")
        );
        let status = r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
        for line in [format!(r#"{{"type":"ERROR","object":{status}}}"#), status.to_owned()] {
            assert!(matches!(read(&line), Ok(Event::Failed(status)) if status.code == 410), "{line}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for line in
            ["", "{}x", "7", r#"{"type":"ADDED"}"#, r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED","object":3}"#]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
