//! Consistent reads: etcd is asked for its revision, and the replica is read once it is there.
//!
//! At most one question is under way; all who come meanwhile share the next one. It must be the next:
//! the answer to a question asked before a reader came may be older than a commit that the reader
//! has heard of.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::channel::{DEADLINE, RANGE, Repeat};
use super::messages::{RangeResponse, revision};
use super::replica::{Replica, revision_request};
use crate::{ReadError, Revision};

type Reply = oneshot::Sender<Result<Revision, ReadError>>;

/// Readers that may wait for one question; more wait to be let in.
const READERS: usize = 4096;

#[derive(Debug)]
pub(super) struct Fresh {
    readers: mpsc::Sender<Reply>,
}

impl Fresh {
    /// The place to ask, and the work that answers.
    pub(super) fn new(replica: Arc<Replica>) -> (Self, impl Future<Output = ()>) {
        let (readers, waiting) = mpsc::channel(READERS);
        (Self { readers }, answer(replica, waiting))
    }

    /// Waits until the replica has all that was committed anywhere before the call.
    pub(super) async fn wait(&self, replica: &Replica) -> Result<(), ReadError> {
        let (reply, answer) = oneshot::channel();
        let ended = || ReadError::Stopped { reason: "it was closed".to_owned() };
        self.readers.send(reply).await.map_err(|_| ended())?;
        let revision = answer.await.map_err(|_| ended())??;
        if replica.catch_up(revision, DEADLINE).await {
            return Ok(());
        }
        let why = replica.health().err().unwrap_or_else(|| "the watch over etcd lags".to_owned());
        let current = replica.state.revision();
        let reason = format!("etcd is at revision {revision}, this server at {current}: {why}");
        Err(ReadError::Unavailable { reason })
    }
}

async fn answer(replica: Arc<Replica>, mut waiting: mpsc::Receiver<Reply>) {
    let mut readers = Vec::new();
    while waiting.recv_many(&mut readers, READERS).await > 0 {
        let answer = ask(&replica).await;
        for reader in readers.drain(..) {
            // Who no longer waits needs no answer.
            let _ = reader.send(answer.clone());
        }
    }
}

async fn ask(replica: &Replica) -> Result<Revision, ReadError> {
    let seen = replica.state.revision();
    let request = revision_request(&replica.keys);
    let answer: Result<RangeResponse, _> = replica.cluster.call(RANGE, &request, Repeat::Always).await;
    let answer = answer.map_err(|failure| ReadError::Unavailable { reason: failure.reason() })?;
    let revision = revision(answer.header.as_ref());
    if revision < seen {
        let reason = format!("etcd is at revision {revision}, but {seen} was seen before; restart this server");
        return Err(ReadError::Unavailable { reason });
    }
    Ok(revision)
}
