//! A control loop: what it watches, how many work at once, and what they do with a key.
//!
//! - Nothing is worked on before every informer has synced.
//! - A failed reconcile is logged and its key tried again with backoff; a success resets the backoff.
//! - A panic in a reconcile is a failure of that key, not of the loop.
//! - Dropping the future that `run` returns stops every worker at its next await, as a crash would.

use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::context::Context;
use crate::error::Error;
use crate::informer::{Change, Informer, Registration};
use crate::key::Key;
use crate::queue::Queue;
use crate::shutdown::Shutdown;

/// What to do with a key after a reconcile that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Nothing until something changes.
    pub fn done() -> Self {
        Action { requeue_after: None }
    }

    /// Look again after this time, changed or not.
    pub fn requeue_after(delay: Duration) -> Self {
        Action { requeue_after: Some(delay) }
    }

    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// Brings one object's world to what its spec says. Must be idempotent: it runs again after every failure.
pub trait Reconciler: Send + Sync + 'static {
    fn reconcile(&self, key: &Key) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// A loop under construction. See the crate's page for an example.
pub struct Controller {
    name: String,
    workers: usize,
    queue: Queue<Key>,
    informers_synced: Vec<BoxFuture<'static, ()>>,
    registrations: Vec<Registration>,
    shutdown: Shutdown,
}

impl Controller {
    pub fn new(name: impl Into<String>, context: &Context) -> Self {
        Controller {
            name: name.into(),
            workers: 1,
            queue: Queue::default(),
            informers_synced: Vec::new(),
            registrations: Vec::new(),
            shutdown: context.shutdown.clone(),
        }
    }

    /// How many keys are worked on at once.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Every change adds the keys that the function makes of it.
    pub fn watch<K>(
        mut self,
        informer: &Informer<K>,
        keys_of: impl Fn(&Change<K>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        let queue = self.queue.clone();
        let registration = informer.on_change(move |change| keys_of(change).into_iter().for_each(|key| queue.add(key)));
        self.registrations.push(registration);
        self.reads(informer)
    }

    /// The reconciler reads this informer: wait until it has synced.
    pub fn reads<K>(mut self, informer: &Informer<K>) -> Self
    where
        K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        let informer = informer.clone();
        self.informers_synced.push(async move { informer.synced().await }.boxed());
        self
    }

    /// The loop's queue, for handlers that know more than a key.
    pub fn queue(&self) -> Queue<Key> {
        self.queue.clone()
    }

    /// Works until the context's shutdown fires; what is in hand then is finished.
    pub async fn run(self, reconciler: impl Reconciler) {
        let Controller { name, workers, queue, informers_synced, registrations, shutdown } = self;
        let run = async {
            futures::future::join_all(informers_synced).await;
            tracing::info!(controller = %name, workers, "informers synced; working");
            let reconciler = Arc::new(reconciler);
            let mut tasks = JoinSet::new();
            for _ in 0..workers {
                tasks.spawn(work(name.clone(), queue.clone(), reconciler.clone()));
            }
            while tasks.join_next().await.is_some() {}
        };
        let stop = async {
            shutdown.fired().await;
            queue.shut_down();
        };
        let mut run = std::pin::pin!(run);
        tokio::select! {
            () = &mut run => {}
            () = stop => {
                // Workers may finish what they hold; a loop that never synced has nothing to finish.
                if tokio::time::timeout(Duration::from_secs(10), run).await.is_err() {
                    tracing::warn!(controller = %name, "work in hand did not finish in 10 s; dropped");
                }
            }
        }
        queue.shut_down();
        drop(registrations);
    }
}

async fn work(name: String, queue: Queue<Key>, reconciler: Arc<impl Reconciler>) {
    while let Some(key) = queue.get().await {
        let span = tracing::info_span!("reconcile", controller = %name, namespace = %key.namespace, name = %key.name);
        match attempt(reconciler.as_ref(), &key).instrument(span.clone()).await {
            Ok(action) => {
                queue.forget(&key);
                if let Some(delay) = action.delay() {
                    queue.add_after(key.clone(), delay);
                }
            }
            Err(error) => {
                let failures = queue.failures(&key) + 1;
                span.in_scope(|| tracing::warn!(%error, failures, "reconcile failed; trying again"));
                queue.add_rate_limited(key.clone());
            }
        }
        queue.done(&key);
    }
}

async fn attempt(reconciler: &impl Reconciler, key: &Key) -> Result<Action, Error> {
    AssertUnwindSafe(async { reconciler.reconcile(key).await })
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(Error::Panicked(message_of(panic.as_ref()))))
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
