//! The engine for more than one machine: several servers over one etcd cluster behave as one store.
//!
//! - Writes are etcd's transactions, so servers cannot overwrite one another's.
//! - Reads come from a replica in memory that a watch keeps up to date. A consistent read asks etcd
//!   how far it has come and waits until the replica is there.
//! - A write that etcd may have applied without saying so is [`CommitError::Unavailable`], and is
//!   never sent twice.
//! - While etcd is away, cached reads and watches go on with what is here, and `health` says so.
//! - Keys are those of Kubernetes (`/registry/pods/default/web`); values have a header of ours.
//! - Both classes of durability are the same: etcd syncs every write.
//!
//! In the order a write walks it: `config` and `channel` reach etcd in the words of `messages`, `keys`
//! and `value` say how an entry looks there, `leases` lets it expire, `commit` writes it, `replica`
//! follows what was written, `fresh` makes reads consistent, `list` reads what the replica does not
//! hold. `testing` (feature `contract`) is a real etcd for tests and benchmarks.

mod channel;
mod commit;
mod config;
mod error;
mod fresh;
mod keys;
mod leases;
mod list;
mod messages;
mod replica;
#[cfg(feature = "contract")]
pub mod testing;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use self::channel::{COMPACT, Cluster, RANGE, Repeat};
pub use self::config::{Config, ParseError, Tls};
pub use self::error::ConnectError;
use self::error::Failure;
use self::fresh::Fresh;
use self::keys::Keys;
use self::leases::Leases;
use self::messages::{CompactionRequest, CompactionResponse, RangeResponse};
use self::replica::Replica;
use crate::state::State;
use crate::{
    CommitError, Committed, Entry, Expect, Interest, Options, Page, Range, ReadError, Revision, Store, Txn, Watch,
};

/// How long the first answer of etcd may take.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// How long a revision that another server gave out may be on its way.
const REACH: Duration = Duration::from_secs(3);

/// A store in an etcd cluster, which it may share with other servers.
#[derive(Debug)]
pub struct EtcdStore {
    replica: Arc<Replica>,
    fresh: Fresh,
    leases: Leases,
    /// Reads before this revision were given up, though etcd may not have dropped them yet.
    compacted: AtomicU64,
    /// `compact` may be called from any thread.
    runtime: Handle,
    /// The watch and the reader of revisions; they end with the store.
    tasks: std::sync::Mutex<JoinSet<()>>,
}

impl EtcdStore {
    /// Connects to any member and reads all keys.
    pub async fn connect(config: Config, options: Options) -> Result<Self, ConnectError> {
        let cluster = Arc::new(Cluster::new(&config)?);
        let keys = Keys::new(config.prefix.clone());
        first_answer(&cluster, &keys, &config).await?;
        let snapshot = list::all(&cluster, &keys).await.map_err(|failure| no_answer(&config, &failure))?;
        let state = Arc::new(State::new(snapshot, options));
        let replica = Arc::new(Replica::new(state, keys, cluster));
        let (fresh, answers) = Fresh::new(Arc::clone(&replica));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&replica).follow());
        tasks.spawn(answers);
        // Not a failure if it takes longer: the replica says so itself, and goes on trying.
        replica.connected(FIRST_ANSWER).await;
        let (compacted, runtime) = (AtomicU64::new(1), Handle::current());
        Ok(Self { replica, fresh, leases: Leases::default(), compacted, runtime, tasks: tasks.into() })
    }

    fn state(&self) -> &Arc<State> {
        &self.replica.state
    }

    /// Waits until nothing that was committed before is missing here. A store that was closed is read
    /// as it was then.
    async fn freshen(&self) -> Result<(), ReadError> {
        if self.state().health().is_err() { Ok(()) } else { self.fresh.wait(&self.replica).await }
    }

    /// A range at a revision before those that are held here.
    async fn range_before(&self, range: &Range, at: Revision) -> Result<Page, ReadError> {
        let oldest = self.compacted.load(Ordering::Relaxed);
        if at < oldest {
            return Err(ReadError::Compacted { oldest });
        }
        list::read(&self.replica.cluster, &self.replica.keys, range).await.map_err(|failure| {
            if failure.says(list::COMPACTED) {
                return ReadError::Compacted { oldest: self.state().snapshot().oldest() };
            }
            ReadError::Unavailable { reason: failure.reason() }
        })
    }

    fn end(&self) {
        self.state().close();
        self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).abort_all();
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn revision(&self) -> Revision {
        self.state().revision()
    }

    async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        if self.replica.catch_up(revision, REACH).await {
            return Ok(());
        }
        self.state().check_reached(revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, ReadError> {
        self.freshen().await?;
        Ok(self.state().get(key))
    }

    async fn range(&self, range: Range) -> Result<Page, ReadError> {
        if range.at.is_none() && !range.cached {
            self.freshen().await?;
        }
        match (self.state().range(&range), range.at) {
            (Err(ReadError::Compacted { .. }), Some(at)) => self.range_before(&range, at).await,
            (page, _) => page,
        }
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        commit::commit(&self.replica, &self.leases, txn).await
    }

    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        self.state().watch(interest, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        self.state().check_running()?;
        let due: Vec<Arc<Entry>> = self.state().snapshot().all_due(now_ms).cloned().collect();
        let mut expired = 0;
        for entry in due {
            let key = Arc::clone(&entry.key);
            let txn = Txn::new().check(Arc::clone(&key), Expect::Revision(entry.mod_revision)).delete(key);
            match self.commit(txn).await {
                Ok(_) => expired += 1,
                // Renewed, or expired by another server or its lease.
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    fn compact(&self, keep_after: Revision) {
        let keep_after = keep_after.min(self.revision());
        self.compacted.fetch_max(keep_after, Ordering::Relaxed);
        self.state().compact(keep_after);
        let cluster = Arc::clone(&self.replica.cluster);
        let request = CompactionRequest { revision: i64::try_from(keep_after).unwrap_or(i64::MAX) };
        self.runtime.spawn(async move {
            let done: Result<CompactionResponse, Failure> = cluster.call(COMPACT, &request, Repeat::Always).await;
            if let Err(failure) = done
                && !failure.says(list::COMPACTED)
            {
                tracing::warn!(keep_after, reason = failure.reason(), "etcd did not compact its history");
            }
        });
    }

    fn health(&self) -> Result<(), String> {
        self.state().health()?;
        self.replica.health()
    }

    async fn close(&self) {
        self.end();
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until a member answers for the whole cluster.
async fn first_answer(cluster: &Cluster, keys: &Keys, config: &Config) -> Result<(), ConnectError> {
    let until = Instant::now() + FIRST_ANSWER;
    let mut last = None;
    let answered = timeout_at(until, async {
        loop {
            for member in 0..cluster.len() {
                let request = replica::revision_request(keys);
                match cluster.call_member(member, RANGE, &request, FIRST_ANSWER).await {
                    Ok(RangeResponse { .. }) => return Ok(()),
                    Err(failure) if !failure.is_passing() => return Err(no_answer(config, &failure)),
                    Err(failure) => {
                        cluster.avoid(member);
                        last = Some(failure);
                    }
                }
            }
            sleep(BETWEEN_ATTEMPTS).await;
        }
    });
    match (answered.await, last) {
        (Ok(result), _) => result,
        (Err(_), Some(failure)) => Err(no_answer(config, &failure)),
        (Err(_), None) => {
            let failure = Failure::timed_out(&config.endpoints[0], FIRST_ANSWER.as_secs_f32());
            Err(no_answer(config, &failure))
        }
    }
}

fn no_answer(config: &Config, failure: &Failure) -> ConnectError {
    let endpoints = config.endpoints.join(", ");
    let reason = failure.reason();
    if failure.is_passing() {
        let protocol = if config.tls.is_some() { "TLS" } else { "plain text" };
        return ConnectError::NoAnswer { endpoints, seconds: FIRST_ANSWER.as_secs(), protocol, reason };
    }
    ConnectError::Refused { endpoints, reason }
}
