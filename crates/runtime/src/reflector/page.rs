//! A page of a list: what its head says, at once, and its objects, which another processor may decode meanwhile.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::io::AsyncBufReadExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use pintle_kinds::text;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use tokio::task::JoinHandle;

use super::unreadable::Unreadable;
use super::{Reading, Seen};

/// The bytes of a page. They go from page to page: making room for some megabytes anew costs as much as filling it.
pub(super) type Text = Vec<u8>;

/// So many objects are handed over at a time. Few enough that a processor has them at hand from the first byte read to the
/// last one dropped: objects take several times the room of their JSON.
const FEW: usize = 16;

/// What is found on a page.
pub(super) enum Told {
    Objects(Vec<Seen>),
    Unreadable(Unreadable),
}

/// A page that is being decoded. Dropping it ends that.
pub(super) struct Decoding {
    task: JoinHandle<(Result<(), kube::Error>, Text)>,
    cancelled: Arc<AtomicBool>,
}

impl Decoding {
    /// A task, not a thread: where there is one processor, or time is virtual, it takes its turn.
    pub(super) fn start(text: Text, reading: Reading, mut tell: impl FnMut(Told) + Send + 'static) -> Self {
        let cancelled = Arc::new(AtomicBool::new(false));
        let stop = cancelled.clone();
        let task = tokio::spawn(async move {
            let decoded = objects(&text, reading, |few| {
                let goes_on = !stop.load(Ordering::Acquire);
                if goes_on {
                    tell(few);
                }
                goes_on
            });
            (decoded, text)
        });
        Decoding { task, cancelled }
    }

    /// Returns when all objects were told, with room for another page.
    pub(super) async fn finished(mut self) -> Result<Text, kube::Error> {
        let (decoded, text) = (&mut self.task).await.map_err(|ended| kube::Error::Service(Box::new(ended)))?;
        decoded.map(|()| text)
    }

    /// Returns when nothing more will be told.
    pub(super) async fn cancelled(mut self) {
        self.cancelled.store(true, Ordering::Release);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

/// Puts the answer to a request in the place of what was read before.
pub(super) async fn read(client: &Client, request: http::Request<Vec<u8>>, text: &mut Text) -> Result<(), kube::Error> {
    text.clear();
    let mut answer = pin!(client.request_stream(request).await?);
    loop {
        let part = answer.fill_buf().await.map_err(kube::Error::ReadEvents)?;
        if part.is_empty() {
            return Ok(());
        }
        let length = part.len();
        text.extend_from_slice(part);
        answer.consume_unpin(length);
    }
}

/// Hands the objects over, a few at a time, for as long as they are wanted.
pub(super) fn objects(text: &[u8], reading: Reading, mut tell: impl FnMut(Told) -> bool) -> Result<(), kube::Error> {
    let mut few = Vec::with_capacity(FEW);
    let mut failure = None;
    let split = text::items(utf8(text)?, |item| {
        match reading.read(item) {
            Ok(object) => few.push(object),
            Err(error) => match Unreadable::of(item, &error) {
                Some(unreadable) => return tell(Told::Unreadable(unreadable)),
                None => {
                    failure = Some(error);
                    return false;
                }
            },
        }
        few.len() < FEW || tell(Told::Objects(std::mem::replace(&mut few, Vec::with_capacity(FEW))))
    });
    match (split, failure) {
        (_, Some(error)) => Err(error),
        (Err(_), None) => Err(broken("the answer is no list, or what is left of it is not wanted")),
        (Ok(()), None) => {
            if !few.is_empty() && !tell(Told::Objects(few)) {
                return Err(broken("the rest is not wanted"));
            }
            Ok(())
        }
    }
}

fn broken(what: impl fmt::Display) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(what))
}

fn utf8(text: &[u8]) -> Result<&str, kube::Error> {
    std::str::from_utf8(text).map_err(broken)
}

/// The list's own metadata. Servers write it before the objects, and then these are not looked at.
pub(super) fn head(text: &[u8]) -> Result<ListMeta, kube::Error> {
    let mut found = None;
    match serde_json::Deserializer::from_slice(text).deserialize_map(Head(&mut found)) {
        Ok(()) => Ok(ListMeta::default()),
        Err(error) => found.ok_or(kube::Error::SerdeError(error)),
    }
}

struct Head<'a>(&'a mut Option<ListMeta>);

impl<'de> Visitor<'de> for Head<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                return Err(A::Error::custom("what follows is of no interest here"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube::api::DynamicObject;
    use kube::core::PartialObjectMeta;
    use pintle_kinds::Kind;

    use super::*;

    #[test]
    fn the_head_is_found_before_and_behind_the_objects() {
        let head_of = |text: &str| head(text.as_bytes()).map(|head| (head.resource_version, head.continue_)).ok();
        let whole = Some((Some("7".to_owned()), Some("next".to_owned())));
        assert_eq!(head_of(r#"{"metadata":{"resourceVersion":"7","continue":"next"},"items":[{"a":1}]}"#), whole);
        assert_eq!(
            head_of(r#"{"items":[{"metadata":{}}],"metadata":{"resourceVersion":"7","continue":"next"}}"#),
            whole
        );
        assert_eq!(head_of(r#"{"kind":"PodList"}"#), Some((None, None)));
        assert_eq!(head_of(r#"{"kind":"PodList","items":["#), None);
        assert_eq!(head_of(r#"{"metadata":{"resourceVersion":7}}"#), None);
        assert_eq!(head_of("[]"), None);
    }

    /// How many were handed over at a time, and whether the text was a list.
    fn told(text: &str, most: usize) -> (Vec<usize>, bool) {
        let mut told = Vec::new();
        let reading = Reading { codec: PartialObjectMeta::<DynamicObject>::CODEC, drops_fields: true };
        let read = objects(text.as_bytes(), reading, |found| {
            let Told::Objects(few) = found else { panic!("anything can be read") };
            told.push(few.len());
            told.len() < most
        });
        (told, read.is_ok())
    }

    #[test]
    fn no_object_keeps_the_others_of_its_page_from_being_listed() {
        let text = r#"{"items":[{"metadata":{"name":"a"}},
            {"metadata":{"name":"b"},"status":{"conditions":[{"type":"A","status":"True","lastTransitionTime":null}]}},
            {"metadata":{"name":"c","namespace":"shop"},"spec":{"ports":7}}]}"#;
        let mut names = std::collections::BTreeSet::new();
        let reading = Reading { codec: Service::CODEC, drops_fields: true };
        let read = objects(text.as_bytes(), reading, |found| {
            match found {
                Told::Objects(few) => names.extend(few.iter().filter_map(|service| service.meta().name.clone())),
                Told::Unreadable(one) => drop(names.insert(format!("unreadable {}", one.key))),
            }
            true
        });
        assert!(read.is_ok());
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "unreadable shop/c"]);
    }

    #[test]
    fn all_objects_of_a_page_come_and_nothing_else_passes_for_an_empty_list() {
        let of = |count: usize| format!(r#"{{"metadata":{{}},"items":[{}],"x":1}}"#, vec!["{}"; count].join(","));
        assert_eq!(told(&of(0), 9), (vec![], true));
        assert_eq!(told(&of(3), 9), (vec![3], true));
        assert_eq!(told(&of(2 * FEW + 1), 9), (vec![FEW, FEW, 1], true));
        assert_eq!(told(&of(3 * FEW), 2), (vec![FEW, FEW], false), "the rest was not wanted");
        assert_eq!(told(r#"{"items":null}"#, 9), (vec![], true));
        for text in [r#"{"kind":"Status"}"#, r#"{"items":{}}"#, r#"{"items":[{}"#, r#"{"items":[]} x"#, "[]", ""] {
            assert!(!told(text, 9).1, "{text}");
        }
    }
}
