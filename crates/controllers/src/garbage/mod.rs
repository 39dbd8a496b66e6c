//! The garbage collector: what goes when its owner goes.
//!
//! Watches the metadata of every resource that can be deleted, found by discovery: again every five minutes, and when a
//! CustomResourceDefinition changes. Keys are UIDs.

mod apply;
mod monitors;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ApiResource;
use pintle_runtime::{Backoff, Context, Controller};
use tokio::sync::Notify;

use apply::Collector;
use monitors::Monitors;
use plan::Graph;

/// Definitions that change are followed at once; this catches what was missed.
const REDISCOVER: Duration = Duration::from_secs(300);

/// How long a resource that cannot be listed may hold up all others.
const PATIENCE: Duration = Duration::from_secs(30);

/// The graph is shared by handlers, which change it, and workers, which read it. No other lock is taken under its lock.
#[derive(Clone, Default)]
struct SharedGraph(Arc<Mutex<Graph>>);

impl SharedGraph {
    fn with<T>(&self, use_graph: impl FnOnce(&mut Graph) -> T) -> T {
        use_graph(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let definitions = context.informers.metadata(&ApiResource::erase::<CustomResourceDefinition>(&()));
    let changed = Arc::new(Notify::new());
    let _registration = definitions.on_change({
        let changed = changed.clone();
        move |change| {
            if !change.is_resync() {
                changed.notify_one();
            }
        }
    });

    let controller = Controller::new("garbage-collector", &context).workers(20);
    let graph = SharedGraph::default();
    let mut monitors = Monitors::new(&context, graph.clone(), controller.waker());
    let mut failures = 0;
    while let Err(error) = monitors.refresh().await {
        tracing::warn!(%error, "cannot discover what may be collected; trying again");
        tokio::select! {
            biased;
            () = tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &context.random)) => failures += 1,
            () = context.shutdown.fired() => return,
        }
    }
    let synced = monitors.synced();
    let collector = Collector::new(&context, graph, controller.waker(), monitors.resources());
    let controller = controller.after(async move {
        // A decision made on half the graph is only slower, never wrong: absence is always checked with the server.
        let _ = tokio::time::timeout(PATIENCE, synced).await;
    });
    let rediscover = async {
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(REDISCOVER) => {}
                () = changed.notified() => {}
            }
            if let Err(error) = monitors.refresh().await {
                tracing::warn!(%error, "cannot discover what may be collected; keeping what is known");
            }
        }
    };
    tokio::select! {
        biased;
        () = controller.run(collector) => {}
        () = rediscover => {}
    }
}
