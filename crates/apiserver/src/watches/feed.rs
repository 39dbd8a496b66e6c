//! The body of one watch: what was there first, what happened since, then what its pump renders.

use super::pump::{Pump, Terms, TooSlow, expired};
use super::view::{Columns, View};
use crate::ApiServer;
use bytes::{BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use pintle_meta::Status;
use pintle_store::{Entry, Event, Interest, ReadError, Revision, Watch};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Initial objects are sent in pieces of about this many bytes.
const PIECE: usize = 64 * 1024;

/// Where a watch begins.
pub struct Start {
    /// Objects to send first, all of them at `after`.
    pub initial: Option<Vec<Arc<Entry>>>,
    /// The end of the initial objects is marked by a bookmark of its own.
    pub marks_end: bool,
    /// Changes after this revision follow.
    pub after: Revision,
}

pub struct Feed {
    server: ApiServer,
    view: Arc<View>,
    interest: Interest,
    /// The pump, and which of its watchers this is.
    seat: Option<(Arc<Pump>, u64)>,
    start: Revision,
    marks_end: bool,
    columns: Columns,
    phase: Phase,
}

enum Phase {
    /// These objects are to be sent.
    Initial(Vec<Arc<Entry>>),
    /// Everything up to this revision was sent; whether the pump goes on from there is not known.
    Reached(Revision),
    /// The pump is ahead: what it rendered before is taken from the store.
    Behind(Watch),
    /// The same, while a webhook converts what happened.
    Converting(BoxFuture<'static, Result<Vec<Arc<Event>>, Status>>, Watch),
    /// The pump's batches are sent.
    Live,
    Failed(ReadError),
    Over,
}

impl Feed {
    /// `topic` names the keys that `interest` is about: the scope of the request.
    pub fn open(
        server: &ApiServer,
        view: View,
        (topic, interest): (String, Interest),
        terms: Terms,
        start: Start,
    ) -> Self {
        let view = Arc::new(view);
        let joined = server.watches.join(server, (&topic, &interest), &view, terms);
        let (seat, phase) = match joined {
            Ok(seat) => {
                let initial = start.initial.filter(|entries| !entries.is_empty() || start.marks_end);
                (Some(seat), initial.map_or(Phase::Reached(start.after), Phase::Initial))
            }
            Err(error) => (None, Phase::Failed(error)),
        };
        let (marks_end, start) = (start.marks_end, start.after);
        Feed { server: server.clone(), view, interest, seat, start, marks_end, columns: Columns::default(), phase }
    }

    /// A piece of the initial objects.
    fn initial(&mut self, mut entries: Vec<Arc<Entry>>) -> Bytes {
        let mut out = BytesMut::new();
        let mut taken = 0;
        for entry in &entries {
            self.view.put(&mut out, "ADDED", entry, &mut self.columns);
            taken += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        entries.drain(..taken);
        if !entries.is_empty() {
            self.phase = Phase::Initial(entries);
            return out.freeze();
        }
        if self.marks_end {
            out.put_slice(&self.view.bookmark(self.start, true));
        }
        self.phase = Phase::Reached(self.start);
        out.freeze()
    }

    /// Goes over to the pump, or to the store if the pump no longer has what follows.
    fn attach(&mut self, (pump, id): &(Arc<Pump>, u64), after: Revision) -> Phase {
        if pump.attach(*id, after) {
            return Phase::Live;
        }
        match self.server.registry.store.subscribe(&self.interest, after) {
            Ok(watch) => Phase::Behind(watch),
            Err(error) => Phase::Failed(error),
        }
    }

    /// What the store has after what was sent; nothing of it may be in view.
    fn catch_up(&mut self, (pump, id): &(Arc<Pump>, u64), mut watch: Watch) -> Bytes {
        let mut out = BytesMut::new();
        self.phase = match watch.next().now_or_never() {
            Some(Ok(events)) if self.view.converts() => {
                let view = self.view.clone();
                Phase::Converting(Box::pin(async move { view.converted(events).await }), watch)
            }
            Some(Ok(events)) => {
                events.iter().for_each(|event| self.view.event(&mut out, event, &mut self.columns));
                Phase::Behind(watch)
            }
            Some(Err(error)) => Phase::Failed(error),
            None if pump.attach(*id, watch.progress()) => Phase::Live,
            None => Phase::Behind(watch),
        };
        out.freeze()
    }

    /// What a webhook made of what happened, or why it made nothing.
    fn converted(&mut self, converted: Result<Vec<Arc<Event>>, Status>, watch: Watch) -> Bytes {
        match converted {
            Ok(events) => {
                let mut out = BytesMut::new();
                events.iter().for_each(|event| self.view.event(&mut out, event, &mut self.columns));
                self.phase = Phase::Behind(watch);
                out.freeze()
            }
            Err(status) => {
                self.phase = Phase::Over;
                self.view.failure(&status)
            }
        }
    }

    /// Why the watch cannot go on, told once.
    fn refusal(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Failed(error) => Some(self.view.failure(&expired(&error, self.start))),
            _ => None,
        }
    }

    /// What the pump had for this watcher.
    fn polled(&mut self, next: Option<Result<Bytes, TooSlow>>) -> Poll<Option<Bytes>> {
        if matches!(next, Some(Err(TooSlow))) {
            self.server.watches.count_cut_off();
        }
        Poll::Ready(next.and_then(Result::ok))
    }
}

impl Stream for Feed {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let (Phase::Live, Some((pump, id))) = (&self.phase, &self.seat) {
                let next = ready!(pump.poll(*id, context));
                return self.polled(next);
            }
            let Some(seat) = self.seat.clone() else { return Poll::Ready(self.refusal()) };
            if seat.0.is_over(seat.1) {
                return Poll::Ready(None);
            }
            let piece = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Converting(mut converting, watch) => match converting.poll_unpin(context) {
                    Poll::Ready(converted) => self.converted(converted, watch),
                    Poll::Pending => {
                        self.phase = Phase::Converting(converting, watch);
                        return Poll::Pending;
                    }
                },
                Phase::Initial(entries) => self.initial(entries),
                Phase::Reached(after) => {
                    self.phase = self.attach(&seat, after);
                    continue;
                }
                Phase::Behind(watch) => self.catch_up(&seat, watch),
                Phase::Failed(error) => {
                    self.phase = Phase::Failed(error);
                    return Poll::Ready(self.refusal());
                }
                Phase::Live | Phase::Over => return Poll::Ready(None),
            };
            if !piece.is_empty() {
                return Poll::Ready(Some(piece));
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some((pump, id)) = self.seat.take() {
            self.server.watches.leave(&pump, id);
        }
    }
}
