//! The manager: a process full of loops, from its first list to its last reconcile.
//!
//! ```no_run
//! use pintle_runtime::{LeaderConfig, Manager};
//!
//! # async fn my_loop(_: pintle_runtime::Context) {}
//! #[tokio::main]
//! async fn main() -> Result<(), pintle_runtime::manager::Failed> {
//!     Manager::connect("my-operator").await?
//!         .elect(LeaderConfig::new("my-operator", "pod-1"))
//!         .serve("0.0.0.0:8081".parse().unwrap())
//!         .run("my-loop", my_loop)
//!         .until_signal()
//!         .await
//! }
//! ```
//!
//! - Loops run while the Lease is held, if there is one. Each leadership starts them anew over informers of its own, which
//!   list after the Lease was won: what the predecessor wrote is seen.
//! - Writes of a led loop carry the term of the leadership; see [`Context::led`].
//! - A stop, by a signal or by the trigger, lets every loop finish what it has in hand and gives the Lease back.
//! - `/healthz` fails while a key has been in the hands of its worker for too long: the watchdog also names it in the log.
//! - `/readyz` fails until the loops run and their informers have synced, and says in the log which has not, and why. A process
//!   that waits for the Lease is ready to take over.
//! - A loop that ends before the stop ends the process: the error names it.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use pintle_meta::{Clock, Random};
use tokio::net::TcpListener;

use crate::board::Board;
use crate::context::Context;
use crate::informer::Informers;
use crate::key::Key;
use crate::leader::{LeaderConfig, Leadership, lead};
use crate::serve::{Health, Metrics, serve};
use crate::shutdown::{Shutdown, Trigger};
use crate::trace::Spans;

/// How often the watchdog looks.
const LOOK: Duration = Duration::from_secs(30);

type Run = Arc<dyn Fn(Context) -> BoxFuture<'static, ()> + Send + Sync>;

/// Why a manager could not start.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("no cluster to connect to: {0}; set KUBECONFIG, or run in a Pod with a service account")]
    Connect(String),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("{0}={1} is not {2}")]
    Variable(&'static str, String, &'static str),
    #[error("{0} ended before the process was told to stop")]
    Ended(String),
}

/// The loops that run now.
#[derive(Clone, Default)]
struct Loops(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// They have been started at least once; their informers.
    running: Option<Informers>,
    /// The first that ended too early.
    ended: Option<String>,
}

impl Loops {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the loops wait for.
    fn unsynced(&self) -> Vec<String> {
        let informers = self.state().running.clone();
        let views = informers.map(|informers| informers.views()).unwrap_or_default();
        let waiting = views.into_iter().filter(|view| !view.is_synced);
        waiting
            .map(|view| match view.why_lost {
                Some(why) => format!("the informer of {} has not synced: {why}", view.path),
                None => format!("the informer of {} has not synced", view.path),
            })
            .collect()
    }
}

/// A process under construction.
pub struct Manager {
    name: String,
    client: Client,
    clock: Clock,
    random: Random,
    trigger: Trigger,
    shutdown: Shutdown,
    lease: Option<LeaderConfig>,
    address: Option<SocketAddr>,
    stuck_after: Duration,
    led: Vec<(String, Run)>,
    always: Vec<(String, Run)>,
    spans: Option<Arc<dyn Spans>>,
    namespace: Option<String>,
    /// Further checks may be added before the start.
    pub health: Health,
    pub metrics: Metrics,
    pub board: Board,
}

impl Manager {
    /// A manager of the cluster that the kubeconfig or the Pod's own account names, with the machine's clock.
    pub async fn connect(name: impl Into<String>) -> Result<Self, Failed> {
        let client = Client::try_default().await.map_err(|error| Failed::Connect(error.to_string()))?;
        Ok(Manager::new(name, client, Clock::system(), Random::system()))
    }

    /// With everything passed in, as tests do.
    pub fn new(name: impl Into<String>, client: Client, clock: Clock, random: Random) -> Self {
        let (trigger, shutdown) = Shutdown::new();
        Manager {
            name: name.into(),
            client,
            clock,
            random,
            trigger,
            shutdown,
            lease: None,
            address: None,
            stuck_after: Duration::from_secs(600),
            led: Vec::new(),
            always: Vec::new(),
            spans: None,
            namespace: None,
            health: Health::default(),
            metrics: Metrics::default(),
            board: Board::default(),
        }
    }

    /// What the environment asks for, as the manifests of an operator do:
    ///
    /// - `OPERATOR_HEALTH`: where `/healthz`, `/readyz` and `/metrics` are shown, such as `0.0.0.0:8081`;
    /// - `OPERATOR_LEASE`: the `NAMESPACE/NAME` of the Lease by which one of several processes leads; `OPERATOR_IDENTITY` says who competes,
    ///   otherwise this host's name and a random part do;
    /// - `OPERATOR_NAMESPACE`: the only namespace that is watched.
    pub fn configured(self) -> Result<Self, Failed> {
        self.configured_by(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn configured_by(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failed> {
        if let Some(address) = variable("OPERATOR_HEALTH") {
            let address = address.parse().map_err(|_| Failed::Variable("OPERATOR_HEALTH", address, "IP:PORT"))?;
            self = self.serve(address);
        }
        if let Some(lease) = variable("OPERATOR_LEASE") {
            let Some((namespace, name)) = lease.split_once('/') else {
                return Err(Failed::Variable("OPERATOR_LEASE", lease, "NAMESPACE/NAME"));
            };
            let config = match variable("OPERATOR_IDENTITY") {
                Some(identity) => LeaderConfig::new(name, identity),
                None => LeaderConfig::of_this_process(name, &self.random),
            };
            self = self.elect(LeaderConfig { namespace: namespace.to_owned(), ..config });
        }
        self.namespace = variable("OPERATOR_NAMESPACE");
        Ok(self)
    }

    /// Of several processes only the one that holds this Lease runs the loops.
    pub fn elect(mut self, lease: LeaderConfig) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Shows `/healthz`, `/readyz` and `/metrics` here.
    pub fn serve(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Reconciles become spans there (see [`trace`](crate::trace)).
    pub fn export_to(mut self, spans: Arc<dyn Spans>) -> Self {
        self.spans = Some(spans);
        self
    }

    /// When the process is told to stop.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// A reconcile that takes longer is taken for stuck.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.stuck_after = time;
        self
    }

    /// A loop, which runs until its context's shutdown fires. It is started once, or at every leadership.
    pub fn run<F>(mut self, name: &str, run: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.led.push((name.to_owned(), Arc::new(move |context| run(context).boxed())));
        self
    }

    /// Something that runs whether or not this process leads, such as a webhook server.
    pub fn always<F>(mut self, name: &str, run: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.always.push((name.to_owned(), Arc::new(move |context| run(context).boxed())));
        self
    }

    /// Works until Ctrl-C or SIGTERM, then finishes what is in hand.
    pub async fn until_signal(self) -> Result<(), Failed> {
        self.until(signal()).await
    }

    /// Works until this comes to pass, then finishes what is in hand.
    pub async fn until(self, end: impl Future<Output = ()>) -> Result<(), Failed> {
        let listener = match self.address {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| Failed::Listen(address, error))?),
            None => None,
        };
        let loops = Loops::default();
        self.checks(loops.clone());
        let serving = async {
            if let Some(listener) = listener {
                serve(listener, self.health.clone(), self.metrics.clone(), self.shutdown.clone()).await;
            }
        };
        let stop = async {
            tokio::select! {
                biased;
                // A loop that ended too early has fired it already.
                () = self.shutdown.fired() => {}
                () = end => {}
            }
            tracing::info!(manager = %self.name, "stopping; work in hand is finished");
            self.trigger.fire();
        };
        let led = async { tokio::join!(self.start_always(&loops), self.start_led(&loops)) };
        let all = async { tokio::join!(led, self.watch_over(&loops), serving) };
        tokio::join!(stop, all);
        let ended = loops.state().ended.take();
        ended.map_or(Ok(()), |name| Err(Failed::Ended(name)))
    }

    fn checks(&self, loops: Loops) {
        self.metrics.observe_board(&self.board);
        let (board, limit) = (self.board.clone(), self.stuck_after);
        self.health.live("watchdog", move || match board.stuck(limit).first() {
            Some((name, key, time)) => Err(format!("loop {name} has worked on {key} for {} s", time.as_secs())),
            None => Ok(()),
        });
        let waits = self.lease.is_some();
        self.health.ready("loops", move || {
            let is_running = loops.state().running.is_some();
            match (loops.unsynced().into_iter().next(), is_running || waits) {
                (Some(why), _) => Err(why),
                (None, true) => Ok(()),
                (None, false) => Err("the loops have not started".to_owned()),
            }
        });
    }

    async fn start_always(&self, loops: &Loops) {
        self.start_all(&self.always, &self.context(self.shutdown.clone()), loops).await;
    }

    async fn start_led(&self, loops: &Loops) {
        match &self.lease {
            None => self.run_loops(self.context(self.shutdown.clone()), loops).await,
            Some(lease) => {
                let compete = self.context(self.shutdown.clone());
                let name = lease.name.clone();
                let run = async |leadership: Leadership| {
                    let _leading = Leading::begin(&self.metrics, &name);
                    let context = self.context(leadership.shutdown.clone()).led(&leadership);
                    self.run_loops(context, loops).await;
                    loops.state().running = None;
                };
                lead(&compete, lease.clone(), run).await;
            }
        }
    }

    async fn run_loops(&self, context: Context, loops: &Loops) {
        // Loops ask for their informers before they first wait; only then is it known what must sync.
        let started = async { loops.state().running = Some(context.informers.clone()) };
        futures::future::join(self.start_all(&self.led, &context, loops), started).await;
    }

    /// Runs all of them side by side, each under its own name, until the last has ended. Dropped, it drops them.
    async fn start_all(&self, runs: &[(String, Run)], context: &Context, loops: &Loops) {
        let running = runs.iter().map(async |(name, run)| {
            let (_trigger, own) = context.named(name);
            run(own).await;
            if !context.shutdown.has_fired() {
                tracing::error!(manager = %self.name, part = %name, "a part of this process ended; stopping the rest");
                loops.state().ended.get_or_insert_with(|| name.clone());
                self.trigger.fire();
            }
        });
        join_all(running).await;
    }

    fn context(&self, shutdown: Shutdown) -> Context {
        let (client, clock, random) = (self.client.clone(), self.clock.clone(), self.random.clone());
        let mut context = Context::seen_by(self.metrics.clone(), client, clock, random, shutdown);
        context.board = self.board.clone();
        if let Some(namespace) = &self.namespace {
            context = context.in_namespace(namespace);
        }
        match &self.spans {
            Some(spans) => context.export_to(spans.clone()),
            None => context,
        }
    }

    /// Names in the log each key whose worker does not come back, once, and each informer that does not sync.
    async fn watch_over(&self, loops: &Loops) {
        let mut named: BTreeSet<(String, Key)> = BTreeSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.fired() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            for why in loops.unsynced() {
                tracing::warn!(manager = %self.name, why, "loops wait");
            }
            let stuck = self.board.stuck(self.stuck_after);
            named.retain(|(name, key)| stuck.iter().any(|(stuck, on, _)| stuck == name && on == key));
            for (name, key, time) in stuck {
                if named.insert((name.clone(), key.clone())) {
                    tracing::error!(controller = %name, namespace = %key.namespace(), name = %key.name(),
                        seconds = time.as_secs(), "a reconcile does not end; does it wait for something without a timeout?");
                }
            }
        }
    }
}

/// Shows that this process leads, until it is dropped: a run that is cut off leads no longer either.
struct Leading<'a>(&'a Metrics, &'a str);

impl<'a> Leading<'a> {
    fn begin(metrics: &'a Metrics, lease: &'a str) -> Self {
        metrics.leads(lease, true);
        Leading(metrics, lease)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.leads(self.1, false);
    }
}

async fn signal() {
    let interrupted = tokio::signal::ctrl_c();
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminated) => {
            tokio::select! {
                biased;
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
        }
        Err(_) => drop(interrupted.await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scripted;

    fn configured(variables: &'static [(&'static str, &'static str)]) -> Result<Manager, Failed> {
        let client = scripted(|_, _, _| (404, serde_json::Value::Null));
        let manager = Manager::new("x", client, Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH), Random::seeded(1));
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        manager.configured_by(find)
    }

    #[tokio::test]
    async fn an_operator_does_what_its_manifest_says_and_names_what_it_cannot_mean() {
        let manager = configured(&[
            ("OPERATOR_HEALTH", "127.0.0.1:8081"),
            ("OPERATOR_LEASE", "shop/x"),
            ("OPERATOR_NAMESPACE", "shop"),
        ]);
        let manager = manager.unwrap_or_else(|error| panic!("{error}"));
        let lease = manager.lease.unwrap();
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("shop", "x"));
        assert!(lease.identity.contains('_'), "no two processes compete under one name: {}", lease.identity);
        assert_eq!(manager.namespace.as_deref(), Some("shop"));
        let wrong = |variables| configured(variables).err().map(|error| error.to_string());
        let health: &[_] = &[("OPERATOR_HEALTH", "everywhere")];
        assert_eq!(wrong(health).as_deref(), Some("OPERATOR_HEALTH=everywhere is not IP:PORT"));
        let lease: &[_] = &[("OPERATOR_LEASE", "x")];
        assert_eq!(wrong(lease).as_deref(), Some("OPERATOR_LEASE=x is not NAMESPACE/NAME"));
    }
}
