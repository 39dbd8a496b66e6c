//! A list that comes as a watch: the server tells everything there is, says that this was all, and goes on with changes.
//!
//! It costs the server less memory than pages do, and the client one request less. It is asked for with
//! [`Informers::with_streaming_lists`](crate::Informers::with_streaming_lists); a server that refuses it is listed in pages.

use kube::api::WatchParams;
use kube::core::Request;

use super::event::{Event, Lines};
use super::{Delta, PLACEHOLDER, Seen, Sink, Source};

/// So many objects are told at a time.
const FEW: usize = 16;

/// What became of a streamed list.
pub(super) enum Streamed {
    /// Everything there is was told, up to this version; what comes next is on the same lines.
    Whole(String, Lines),
    /// The server does not stream lists.
    Unsupported,
    Broken(kube::Error),
}

impl Source {
    pub(super) async fn stream(&self, sink: &Sink) -> Streamed {
        let mut lines = match self.open_stream().await {
            Ok(lines) => lines,
            // What the server does not know, or has switched off; a right that is missing is missing for pages too.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 405 | 422) => return Streamed::Unsupported,
            Err(error) => return Streamed::Broken(error),
        };
        let mut few: Vec<Seen> = Vec::with_capacity(FEW);
        sink(Delta::Listing(0));
        loop {
            let event = match tokio::time::timeout(self.silence, lines.next()).await {
                Ok(Ok(Some(line))) => Event::read(line, self.reading),
                Ok(Ok(None)) | Err(_) => return Streamed::Broken(cut_off()),
                Ok(Err(error)) => return Streamed::Broken(error),
            };
            match event {
                Ok(Event::Applied(object)) => few.push(object),
                Ok(Event::Unreadable { object, is_deleted: false }) => sink(Delta::Unreadable(object)),
                Ok(Event::Bookmark { version, ends_list: true }) => {
                    sink(Delta::Page(few));
                    sink(Delta::Listed(version.clone()));
                    return Streamed::Whole(version, lines);
                }
                Ok(Event::Failed(status)) => return Streamed::Broken(kube::Error::Api(status)),
                Err(error) => return Streamed::Broken(error),
                // Nothing is deleted before the end of the list, and other bookmarks say nothing about it.
                Ok(Event::Deleted(_) | Event::Unreadable { .. } | Event::Bookmark { .. }) => {}
            }
            if few.len() == FEW {
                sink(Delta::Page(std::mem::replace(&mut few, Vec::with_capacity(FEW))));
            }
        }
    }

    async fn open_stream(&self) -> Result<Lines, kube::Error> {
        let params = WatchParams {
            label_selector: self.selection.label_selector(),
            field_selector: self.selection.field_selector(),
            timeout: Some(PLACEHOLDER),
            ..WatchParams::streaming_lists()
        };
        let request = Request::new(&self.path);
        let request = match self.is_metadata {
            true => request.watch_metadata(&params, ""),
            false => request.watch(&params, ""),
        };
        Lines::open(&self.client, self.for_long(request.map_err(kube::Error::BuildRequest)?)).await
    }
}

fn cut_off() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the list was cut off"))
}
