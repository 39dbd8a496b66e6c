//! A control loop that reads as a sentence: what it watches, which changes count, how it works, and what it does.
//!
//! - Nothing is worked on before every informer has synced.
//! - A failed reconcile is logged and its key tried again with backoff; a success resets the backoff.
//! - A panic in a reconcile is a failure of that key, not of the loop. A terminal error leaves the key until something changes.
//! - A reconcile does not start on a cache that is older than what this loop itself last wrote for the key (see `expectations`).
//! - Dropping the future that `run` returns stops every worker at its next await, as a crash would.

pub mod when;

mod expectations;
mod failure;
mod pace;
mod subject;
#[cfg(test)]
mod tests;
mod wake;
mod worker;

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::core::Selector;
use pintle_kinds::Kind;
use pintle_meta::Random;
use tokio::task::JoinSet;

use crate::attempt::Attempt;
use crate::backoff::Backoff;
use crate::cause::Wake;
use crate::context::Context;
use crate::error::Error;
use crate::executor::Executor;
use crate::informer::{Change, Event, Informer, Mirror, Registration};
use crate::key::Key;
use crate::owner::{self, GroupKind};
use crate::plan::Plan;
use crate::queue::{Class, Config, Queue, Rate};

use expectations::Expectations;
use failure::Decide;
pub use failure::OnError;
use subject::{Subject, owners_of};
use wake::ClassOf;
pub use wake::Waker;
use worker::Worker;

/// How long work in hand may go on after the shutdown.
const GRACE: Duration = Duration::from_secs(10);

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

/// A reconciler that is known by what it does alone, so that workers are compiled once.
pub(super) trait Reconciling: Send + Sync {
    fn reconciling<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Action, Error>>;
}

impl<R: Reconciler> Reconciling for R {
    fn reconciling<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Action, Error>> {
        self.reconcile(&attempt.key, attempt).boxed()
    }
}

/// Brings one object's world to what its spec says. Must be idempotent: it runs again after every failure.
pub trait Reconciler: Send + Sync + 'static {
    fn reconcile(&self, key: &Key, attempt: &Attempt) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// What a watched kind must be able to do.
pub trait Watched: Kind<DynamicType = (), Scope: 'static> {}

impl<K: Kind<DynamicType = (), Scope: 'static>> Watched for K {}

/// What a change makes of keys.
type KeysOf = Box<dyn Fn(&Event<'_>) -> Vec<Key> + Send + Sync>;

/// Registers one watch when the loop runs.
type Watch = Box<dyn FnOnce(&Waker) -> Registration + Send>;

/// A loop under construction. See the crate's page for an example.
pub struct Controller {
    name: Arc<str>,
    context: Arc<Context>,
    workers: usize,
    overtaken_after: Option<Duration>,
    timeout: Option<Duration>,
    on_error: Decide,
    config: Config,
    class_of: ClassOf,
    /// Made when it is first asked for, or when the loop runs.
    waker: OnceLock<Waker>,
    watches: Vec<Watch>,
    /// What the keys name, once `for_each` has said it: also to what was said before.
    subject: Arc<OnceLock<Subject>>,
    synced: Vec<BoxFuture<'static, ()>>,
    views: Vec<Arc<Mirror>>,
}

/// Ends the keys that others were begun beside, when the loop is dropped.
struct EndOvertaken(Arc<Mutex<JoinSet<()>>>);

impl Drop for EndOvertaken {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Controller {
    pub fn new(name: impl Into<String>, context: &Context) -> Self {
        Controller {
            name: name.into().into(),
            context: Arc::new(context.clone()),
            workers: context.workers().unwrap_or(1).max(1),
            overtaken_after: None,
            timeout: None,
            on_error: Arc::new(OnError::usual),
            config: Config::default(),
            class_of: Arc::new(usual_class),
            waker: OnceLock::new(),
            watches: Vec::new(),
            subject: Arc::default(),
            synced: Vec::new(),
            views: Vec::new(),
        }
    }

    /// The kind whose objects are reconciled: every change that counts wakes the object itself.
    pub fn for_each<K: Watched>(self, counts: impl Fn(&Change<K>) -> bool + Send + Sync + 'static) -> Self {
        self.subject.get_or_init(|| Subject { kind: GroupKind::of::<K>(), scope: None });
        self.watches(counts, |change| vec![change.key()])
    }

    /// A kind that the reconciled objects own: a change that counts wakes the owner, and the one before if it changed.
    ///
    /// Without [`Controller::for_each`], before or after it, there are no owners to wake.
    pub fn owns<K: Watched>(self, counts: impl Fn(&Change<K>) -> bool + Send + Sync + 'static) -> Self {
        let subject = self.subject.clone();
        self.watches(counts, move |change: &Change<K>| owners_of(change, &subject))
    }

    /// A kind that the reconciled kind `K` owns or takes in by a selector: a change wakes the owner, and the one before if it
    /// changed; one of an object that is nobody's wakes those whose selector matches (see [`claim`](crate::claim)). A
    /// selector that matches everything takes in nothing. Resyncs do not count: those of the owners do.
    pub fn adopts<K: Watched, C: Watched>(
        self,
        selector_of: impl Fn(&K) -> Option<Selector> + Send + Sync + 'static,
    ) -> Self {
        self.adopts_when(when::anything::<C>, selector_of)
    }

    /// The same for changes that count.
    pub fn adopts_when<K: Watched, C: Watched>(
        self,
        counts: impl Fn(&Change<C>) -> bool + Send + Sync + 'static,
        selector_of: impl Fn(&K) -> Option<Selector> + Send + Sync + 'static,
    ) -> Self {
        let (owners, children) = (self.context.informers.of::<K>(), self.context.informers.of::<C>());
        self.watch(&children, move |change| match counts(change) {
            true => adopters_of(change, &owners, &selector_of),
            false => Vec::new(),
        })
    }

    /// Any kind: every change that counts wakes the keys that the function makes of it.
    pub fn watches<K: Watched>(
        self,
        counts: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
        keys_of: impl Fn(&Change<K>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        let informer = self.context.informers.of::<K>();
        self.watch(&informer, move |change| if counts(change) { keys_of(change) } else { Vec::new() })
    }

    /// [`Controller::for_each`] for an informer at hand: of a selection, of a kind that is known only at run time, of bare metadata.
    ///
    /// ```no_run
    /// # use kube::api::ApiResource; use kube::core::GroupVersionKind; use pintle_runtime::{Context, Controller, when};
    /// # fn example(context: &Context) {
    /// let websites = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Website"));
    /// let websites = context.informers.dynamic(&websites);
    /// let controller = Controller::new("website", context).for_each_in(&websites, when::spec);
    /// # }
    /// ```
    pub fn for_each_in<K: Kind>(
        self,
        informer: &Informer<K>,
        counts: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let subject =
            Subject { kind: informer.mirror().kind().as_ref().clone(), scope: Some(informer.mirror().clone()) };
        self.subject.get_or_init(|| subject);
        self.watch(informer, move |change| if counts(change) { vec![change.key()] } else { Vec::new() })
    }

    /// [`Controller::owns`] for an informer at hand.
    pub fn owns_in<K: Kind>(
        self,
        informer: &Informer<K>,
        counts: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let subject = self.subject.clone();
        self.watch(informer, move |change| if counts(change) { owners_of(change, &subject) } else { Vec::new() })
    }

    /// The same for an informer at hand: of a selection, of another cluster, or of a kind known only at run time.
    pub fn watch<K: Kind>(
        self,
        informer: &Informer<K>,
        keys_of: impl Fn(&Change<K>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        let keys_of = move |event: &Event<'_>| event.change.typed().map_or_else(Vec::new, |change| keys_of(&change));
        self.watch_mirror(informer.mirror(), Box::new(keys_of))
    }

    fn watch_mirror(mut self, mirror: &Arc<Mirror>, keys_of: KeysOf) -> Self {
        let watched = mirror.clone();
        self.watches.push(Box::new(move |waker| {
            let waker = waker.clone();
            watched.on_event(Box::new(move |event| {
                for key in keys_of(event) {
                    waker.wake(key, event.cause());
                }
            }))
        }));
        self.reads_mirror(mirror)
    }

    /// The reconciler reads this informer: wait until it has synced, and until it shows what this loop wrote.
    pub fn reads<K: Kind>(self, informer: &Informer<K>) -> Self {
        self.reads_mirror(informer.mirror())
    }

    fn reads_mirror(mut self, mirror: &Arc<Mirror>) -> Self {
        self.views.push(mirror.clone());
        let mirror = mirror.clone();
        self.synced.push(async move { mirror.synced().await }.boxed());
        self
    }

    /// How many keys are worked on at once, unless the context says it ([`Context::with_workers`]).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = self.context.workers().unwrap_or(workers).max(1);
        self
    }

    /// A key that takes longer than this does not count among those that are worked on at once: the next one is begun beside it.
    /// For loops that wait for something which may hang for one key and not for another.
    pub fn overtaken_after(mut self, time: Duration) -> Self {
        self.overtaken_after = Some(time);
        self
    }

    /// A reconcile that takes longer is dropped at its next await, and its key tried again with backoff.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// What becomes of a key whose reconcile failed. Unless said otherwise, and for conflicts always, it is tried again with
    /// backoff; a terminal error leaves it until something changes.
    pub fn on_error(mut self, decide: impl Fn(&Error, &Attempt) -> OnError + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(decide);
        self
    }

    /// Nothing is worked on before this has come to pass.
    pub fn after(mut self, event: impl Future<Output = ()> + Send + 'static) -> Self {
        self.synced.push(event.boxed());
        self
    }

    /// What a failed key waits.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// How many retries of all keys together go through.
    pub fn rate_limit(mut self, rate: Rate) -> Self {
        self.config.rate = Some(rate);
        self
    }

    /// How urgent a key is, by what woke it; a key that waits too long rises (see [`Queue`]). Unless said otherwise a
    /// resync is low and all else normal.
    pub fn priority(mut self, class_of: impl Fn(&Key, Wake) -> Class + Send + Sync + 'static) -> Self {
        self.class_of = Arc::new(class_of);
        self
    }

    /// Wakes keys of this loop, for handlers that know more than a key. Say how the queue is to behave before this.
    pub fn waker(&self) -> Waker {
        let make = || {
            let queue = Queue::with(self.config);
            let record = self.context.board.enter(&self.name, queue.clone());
            Waker::new((queue, record), self.class_of.clone())
        };
        self.waker.get_or_init(make).clone()
    }

    /// Works until the context's shutdown fires: what the function makes of what the informers show is carried out. For loops
    /// that need to know nothing else.
    pub async fn run_plans(self, executor: Executor, plan: impl Fn(&Key) -> Plan + Send + Sync + 'static) {
        self.run(Planned { executor, plan }).await;
    }

    /// Works until the context's shutdown fires; what is in hand then is finished.
    pub async fn run(self, reconciler: impl Reconciler) {
        self.run_erased(Arc::new(reconciler)).await;
    }

    async fn run_erased(self, reconciler: Arc<dyn Reconciling>) {
        let waker = self.waker();
        let _closing = Closing(waker.queue().clone());
        let Controller {
            name,
            context,
            workers,
            overtaken_after,
            timeout,
            on_error,
            watches,
            subject,
            synced,
            views,
            ..
        } = self;
        let registrations: Vec<Registration> = watches.into_iter().map(|watch| watch(&waker)).collect();
        let shutdown = context.shutdown.clone();
        tokio::select! {
            biased;
            _ = futures::future::join_all(synced) => {}
            () = shutdown.fired() => return,
        }
        tracing::info!(controller = %name, workers, "informers synced; working");
        context.metrics.workers(&name, workers);
        let identities = Random::seeded(context.random.fork().next() ^ pintle_meta::hash::stable(name.as_bytes()));
        let worker = Worker {
            name: name.clone(),
            subject: Arc::new(subject.get().map(|subject| subject.kind.clone()).unwrap_or_default()),
            context,
            waker: waker.clone(),
            expectations: Arc::new(Expectations::new(views)),
            pace: Arc::default(),
            reconciler,
            overtaken_after,
            timeout,
            on_error,
            overtaken: Arc::default(),
            identities,
        };
        // Those that were overtaken hold the set that they are in: it does not go by itself with this loop.
        let _ends = EndOvertaken(worker.overtaken.clone());
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(worker.clone().work());
        }
        shutdown.fired().await;
        waker.queue().shut_down();
        drop(registrations);
        let finish = async {
            while tasks.join_next().await.is_some() {}
            let mut overtaken = std::mem::take(&mut *worker.overtaken());
            while overtaken.join_next().await.is_some() {}
        };
        if tokio::time::timeout(GRACE, finish).await.is_err() {
            tracing::warn!(controller = %name, "work in hand did not finish in time; dropped");
        }
    }
}

/// A reconciler that is a plan and nothing else.
struct Planned<F> {
    executor: Executor,
    plan: F,
}

impl<F: Fn(&Key) -> Plan + Send + Sync + 'static> Reconciler for Planned<F> {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        Ok(self.executor.carry_out((self.plan)(key)).await?)
    }
}

/// Whom a change of a child concerns.
fn adopters_of<K: Watched, C: Watched>(
    change: &Change<C>,
    owners: &Informer<K>,
    selector_of: &impl Fn(&K) -> Option<Selector>,
) -> Vec<Key> {
    if change.is_resync() {
        return Vec::new();
    }
    let meta = change.object().meta();
    let now = owner::controller_key::<K>(meta);
    let before = change.old().and_then(|old| owner::controller_key::<K>(old.meta()));
    let mut keys: Vec<Key> = before.filter(|before| Some(before) != now.as_ref()).into_iter().collect();
    match now {
        Some(key) => keys.push(key),
        None if change.is_deleted() || owner::controller_of(meta).is_some() => {}
        None => {
            let selects = |owner: &K| {
                selector_of(owner).is_some_and(|selector| !selector.selects_all() && owner::matches(&selector, meta))
            };
            let all = owners.in_namespace(meta.namespace.as_deref().unwrap_or_default());
            keys.extend(all.iter().filter(|owner| selects(owner)).map(|owner| Key::of(owner.as_ref())));
        }
    }
    keys
}

/// A periodic look can wait; whatever happened goes first.
fn usual_class(_: &Key, wake: Wake) -> Class {
    if wake == Wake::Resync { Class::Low } else { Class::Normal }
}

/// Shuts the queue down however the loop ends, so that no one adds to it or waits for it any more.
struct Closing(Queue<Key>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}
