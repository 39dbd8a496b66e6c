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
use crate::error::{ApiError, Error};
use crate::informer::{Change, Informer, Registration};
use crate::key::Key;
use crate::queue::Queue;
use crate::shutdown::Shutdown;

/// How long work in hand may go on after the shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// So many conflicts in a row are nothing to tell people about.
const EVERYDAY: u32 = 3;

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
        let (name, queue) = (name.into(), Queue::default());
        context.board.enter(&name, queue.clone());
        Controller {
            name,
            workers: 1,
            queue,
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

    /// Nothing is worked on before this has come to pass.
    pub fn after(mut self, event: impl Future<Output = ()> + Send + 'static) -> Self {
        self.informers_synced.push(event.boxed());
        self
    }

    /// The loop's queue, for handlers that know more than a key.
    pub fn queue(&self) -> Queue<Key> {
        self.queue.clone()
    }

    /// Works until the context's shutdown fires; what is in hand then is finished.
    pub async fn run(self, reconciler: impl Reconciler) {
        let Controller { name, workers, queue, informers_synced, registrations, shutdown } = self;
        let _closing = Closing(queue.clone());
        tokio::select! {
            biased;
            _ = futures::future::join_all(informers_synced) => {}
            () = shutdown.fired() => return,
        }
        tracing::info!(controller = %name, workers, "informers synced; working");
        let reconciler = Arc::new(reconciler);
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(name.clone(), queue.clone(), reconciler.clone()));
        }
        shutdown.fired().await;
        queue.shut_down();
        drop(registrations);
        let finish = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, finish).await.is_err() {
            tracing::warn!(controller = %name, "work in hand did not finish in time; dropped");
        }
    }
}

/// Shuts the queue down however the loop ends, so that no one adds to it or waits for it any more.
struct Closing(Queue<Key>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.shut_down();
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
                span.in_scope(|| match &error {
                    // Someone wrote first, or the cache is behind: cured by looking again.
                    Error::Api(refused)
                        if failures <= EVERYDAY && (refused.is_conflict() || refused.is_not_found()) =>
                    {
                        tracing::debug!(%error, failures, "the cache was behind");
                    }
                    _ => tracing::warn!(%error, failures, "reconcile failed; trying again"),
                });
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::reflector::Delta;
    use crate::testing::scripted;
    use crate::{Clock, Random};

    struct Stumbling(Mutex<u32>, tokio::sync::mpsc::Sender<String>);

    impl Reconciler for Stumbling {
        async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
            let attempt = {
                let mut attempts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *attempts += 1;
                *attempts
            };
            match attempt {
                1 => panic!("stumbled"),
                2 => Err(Error::Invalid("not yet".into())),
                _ => {
                    self.1.send(key.to_string()).await.unwrap();
                    Ok(Action::done())
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_and_an_error_cost_a_retry_and_a_shutdown_ends_the_loop() {
        let client = scripted(|_, _, _| (404, serde_json::json!({"code": 404, "message": "", "reason": "NotFound"})));
        let (trigger, shutdown) = Shutdown::new();
        let context =
            Context::new(client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1), shutdown);
        let maps = Informer::<ConfigMap>::detached();
        let (sender, mut done) = tokio::sync::mpsc::channel(1);
        let controller = Controller::new("stumbling", &context).watch(&maps, |change| vec![change.key()]);
        let running = tokio::spawn(controller.run(Stumbling(Mutex::new(0), sender)));
        tokio::task::yield_now().await;
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        maps.take(Delta::Replaced(vec![map]));
        assert_eq!(done.recv().await.as_deref(), Some("a"));
        trigger.fire();
        running.await.unwrap();
    }
}
