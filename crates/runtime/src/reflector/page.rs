//! A page of a list: what its head says, at once, and its objects, which another processor may decode meanwhile.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;

use futures::io::AsyncBufReadExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::core::ObjectList;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use tokio::task::JoinHandle;

/// The bytes of a page. They go from page to page: making room for some megabytes anew costs as much as filling it.
pub(super) type Text = Vec<u8>;

/// A page that is being decoded.
pub(super) struct Decoding<W>(JoinHandle<(Result<Vec<W>, kube::Error>, Text)>);

impl<W: DeserializeOwned + Clone + Send + 'static> Decoding<W> {
    /// A task, not a thread: where there is one processor, or time is virtual, it takes its turn.
    pub(super) fn start(text: Text) -> Self {
        Decoding(tokio::spawn(async move { (objects(&text), text) }))
    }

    /// The objects, and room for another page.
    pub(super) async fn objects(self) -> Result<(Vec<W>, Text), kube::Error> {
        let (objects, text) = self.0.await.map_err(|ended| kube::Error::Service(Box::new(ended)))?;
        Ok((objects?, text))
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

pub(super) fn objects<W: DeserializeOwned + Clone>(text: &[u8]) -> Result<Vec<W>, kube::Error> {
    let page: ObjectList<W> = serde_json::from_str(utf8(text)?).map_err(kube::Error::SerdeError)?;
    Ok(page.items)
}

/// As the client reads answers: reading bytes would compile every kind's decoder a second time.
fn utf8(text: &[u8]) -> Result<&str, kube::Error> {
    let broken = |error| kube::Error::SerdeError(serde_json::Error::custom(error));
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
}
