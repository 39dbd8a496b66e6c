//! How many connections there may be, and which one has to go when there is no room.
//!
//! - A connection is a stranger's until a request on it was authenticated, by a certificate or a token.
//! - When there is no room, the oldest stranger's connection is closed for a newcomer: those who can authenticate get in,
//!   however many strangers hold connections.
//! - When nobody is a stranger, newcomers are refused.
//!
//! ```text
//! room for 3:  [known] [stranger 1] [stranger 2]   + newcomer  →  [known] [stranger 2] [newcomer]
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// The most connections, where the operating system allows as many files.
const MAX_CONNECTIONS: usize = 8192;
/// The most of them that are strangers'.
const MAX_STRANGERS: usize = 1024;
/// Files that are left to the store, the nodes and connections to others.
const RESERVED_FILES: u64 = 256;
/// A connection without a request for this long is closed.
pub const IDLE: Duration = Duration::from_secs(90);

pub struct Connections {
    most: usize,
    most_strangers: usize,
    open: AtomicUsize,
    next: AtomicU64,
    /// The connections of strangers, the oldest first.
    strangers: Mutex<BTreeMap<u64, Arc<Notify>>>,
    /// Holds as many permits as connections may be open; all are back when none is.
    room: Arc<Semaphore>,
}

impl Connections {
    /// As many as the limit on open files leaves room for.
    pub fn new() -> Arc<Self> {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let left = files.saturating_sub(RESERVED_FILES).max(files / 2);
        Self::with_room(MAX_CONNECTIONS.min(usize::try_from(left).unwrap_or(MAX_CONNECTIONS)), MAX_STRANGERS)
    }

    fn with_room(most: usize, most_strangers: usize) -> Arc<Self> {
        Arc::new(Connections {
            most,
            most_strangers: most_strangers.min(most),
            open: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            strangers: Mutex::default(),
            room: Arc::new(Semaphore::new(most)),
        })
    }

    /// A place for a newcomer; none if every place is taken by somebody who is known.
    pub fn admit(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let full = self.open.load(Ordering::Acquire) >= self.most;
        if full || strangers.len() >= self.most_strangers {
            match strangers.pop_first() {
                // Its place is free a moment later; the one above the limit is covered by the reserve of files.
                Some((_, oldest)) => oldest.notify_one(),
                None if full => return None,
                None => {}
            }
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let leave = Arc::new(Notify::new());
        strangers.insert(id, leave.clone());
        self.open.fetch_add(1, Ordering::AcqRel);
        Some(Arc::new(Connection {
            id,
            known: AtomicBool::new(false),
            leave,
            from: OnceLock::new(),
            requests: AtomicUsize::new(0),
            idle: Notify::new(),
            all: self.clone(),
        }))
    }

    /// Returns when no connection is open.
    pub async fn ended(&self) {
        while self.open.load(Ordering::Acquire) > 0 {
            // A closed connection adds a permit.
            if let Ok(permit) = self.room.acquire().await {
                permit.forget();
            }
        }
    }
}

/// One connection, counted until it is dropped.
pub struct Connection {
    id: u64,
    known: AtomicBool,
    leave: Arc<Notify>,
    from: OnceLock<IpAddr>,
    requests: AtomicUsize,
    idle: Notify,
    all: Arc<Connections>,
}

impl Connection {
    /// Notes the address of the other end.
    pub fn is_from(&self, address: IpAddr) {
        let _ = self.from.set(address);
    }

    pub fn from(&self) -> Option<IpAddr> {
        self.from.get().copied()
    }

    /// Somebody on this connection was authenticated: it is not closed for a newcomer any more.
    pub fn is_known(&self) {
        // Every authenticated request says so: only the first one takes the lock that all connections share.
        if self.known.swap(true, Ordering::AcqRel) {
            return;
        }
        self.all.strangers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }

    /// Counts a request until the guard is dropped.
    pub fn request(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.clone())
    }

    /// Returns when the connection has to go: a newcomer needs its place, or nobody has asked anything for long.
    pub async fn has_to_leave(&self) {
        tokio::select! {
            biased;
            () = self.leave.notified() => {}
            () = self.idled() => {}
        }
    }

    async fn idled(&self) {
        loop {
            if self.requests.load(Ordering::Acquire) > 0 {
                self.idle.notified().await;
                continue;
            }
            // Any request in between, also a short one, begins the time anew.
            if tokio::time::timeout(IDLE, self.idle.notified()).await.is_err()
                && self.requests.load(Ordering::Acquire) == 0
            {
                return;
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.is_known();
        self.all.open.fetch_sub(1, Ordering::AcqRel);
        self.all.room.add_permits(1);
    }
}

/// A request under way on a connection.
pub struct UnderWay(Arc<Connection>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
        self.0.idle.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_newcomer_takes_the_place_of_the_oldest_stranger_and_never_of_somebody_known() {
        let all = Connections::with_room(3, 3);
        let [known, first, second] = [all.admit().unwrap(), all.admit().unwrap(), all.admit().unwrap()];
        known.is_known();
        let leaves = |connection: &Connection| connection.leave.notified().now_or_never().is_some();
        let newcomer = all.admit().unwrap();
        assert!(leaves(&first) && !leaves(&second) && !leaves(&known) && !leaves(&newcomer));
        drop(first);
        second.is_known();
        newcomer.is_known();
        assert!(all.admit().is_none(), "everybody is known");
        drop(second);
        assert!(all.admit().is_some());
    }

    #[test]
    fn strangers_have_a_limit_of_their_own() {
        let all = Connections::with_room(10, 2);
        let strangers = [all.admit().unwrap(), all.admit().unwrap(), all.admit().unwrap()];
        assert!(strangers[0].leave.notified().now_or_never().is_some());
        assert!(strangers[1].leave.notified().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_closed_and_one_with_a_watch_is_not() {
        let all = Connections::with_room(3, 3);
        let quiet = all.admit().unwrap();
        let began = tokio::time::Instant::now();
        quiet.has_to_leave().await;
        assert!(began.elapsed() >= IDLE);
        let watching = all.admit().unwrap();
        let watch = watching.request();
        assert!(tokio::time::timeout(10 * IDLE, watching.has_to_leave()).await.is_err());
        drop(watch);
        assert!(tokio::time::timeout(IDLE / 2, watching.has_to_leave()).await.is_err());
        watching.has_to_leave().await;
        drop((quiet, watching));
        all.ended().await;
    }
}
