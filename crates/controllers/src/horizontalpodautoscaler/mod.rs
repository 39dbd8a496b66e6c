//! The horizontalpodautoscaler loop: as many replicas as keep metrics at their targets.
//!
//! Watches HorizontalPodAutoscalers and looks at each every 15 seconds: at the Scale of its target, of whatever kind, at the
//! target's Pods, and at what the resource, custom and external metrics APIs tell. Keys are autoscalers.

mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use pintle_meta::labels::Selector;
use pintle_runtime::{
    Action, ApiError, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, when,
};

use crate::scales::{ScaleError, Scaled, Scales};
use metrics::Metrics;
use plan::{BadSelector, History, Measured, Seen, Step, Target};

/// A metrics API that hangs holds up only those that ask it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let autoscalers = context.informers.of::<HorizontalPodAutoscaler>();
    let pods = context.informers.of::<Pod>();
    let executor = Executor::new(&context, "horizontal-pod-autoscaler");
    let (scales, metrics) = (Scales::new(context.client.clone()), Metrics::new(context.client.clone()));
    Controller::new("horizontal-pod-autoscaler", &context)
        .workers(5)
        .overtaken_after(PATIENCE)
        .watch(&autoscalers, |change| {
            // Its own status does not wake it: each is looked at in its period.
            let counts = when::differs(change, |autoscaler: &HorizontalPodAutoscaler| autoscaler.spec.clone());
            if counts { vec![change.key()] } else { Vec::new() }
        })
        .reads(&pods)
        .run(Autoscaling {
            clock: context.clock.clone(),
            executor,
            autoscalers,
            pods,
            scales,
            metrics,
            known: Mutex::default(),
        })
        .await;
}

struct Autoscaling {
    clock: Clock,
    executor: Executor,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    pods: Informer<Pod>,
    scales: Scales,
    metrics: Metrics,
    known: Mutex<BTreeMap<Key, Known>>,
}

/// What is remembered of an autoscaler.
#[derive(Default)]
struct Known {
    history: History,
    /// Which Pods it scaled when it was last looked at.
    selector: Option<Selector>,
}

impl Reconciler for Autoscaling {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(autoscaler) = self.autoscalers.get(key) else {
            self.known().remove(key);
            return Ok(Action::done());
        };
        let target = self.target(&autoscaler, key).await;
        let measured = match &target {
            Ok(target) if plan::step(&autoscaler, target) == Step::Measure => {
                self.measure(&autoscaler, key, &target.selector).await
            }
            _ => Err(BadSelector::Missing),
        };
        let now = self.clock.now();
        let mut history = self.known().entry(key.clone()).or_default().history.clone();
        let decision = plan::plan(&autoscaler, Seen { target, measured }, &mut history, now);
        let done = self.executor.execute(autoscaler.as_ref(), decision.plan).await;
        if let (Ok(_), Some(change)) = (&done, decision.scales) {
            history.scaled(change, autoscaler.spec.behavior.as_ref(), now);
        }
        // What was recommended counts whether or not it could be written.
        self.known().entry(key.clone()).or_default().history = history;
        Ok(done?)
    }
}

impl Autoscaling {
    async fn target(&self, autoscaler: &HorizontalPodAutoscaler, key: &Key) -> Result<Target, String> {
        let reference = autoscaler.spec.scale_target_ref.clone();
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        let found = self.scales.get(key.namespace(), api_version, &reference.kind, &reference.name).await;
        let Scaled { collection, scale } = found.map_err(|error| match error {
            ScaleError::Api(error) => error.server_message(),
            error => error.to_string(),
        })?;
        let status = scale.status.unwrap_or_default();
        Ok(Target {
            collection,
            name: reference.name,
            uid: scale.metadata.uid,
            wanted: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            observed: status.replicas,
            selector: status.selector.unwrap_or_default(),
        })
    }

    async fn measure(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        key: &Key,
        selector: &str,
    ) -> Result<Measured, BadSelector> {
        if selector.is_empty() {
            return Err(BadSelector::Missing);
        }
        let parsed = Selector::parse(selector).map_err(|error| BadSelector::Unreadable(error.to_string()))?;
        let mut pods = self.pods.in_namespace(key.namespace());
        pods.retain(|pod| selects(&parsed, pod));
        if let Some(other) = self.rival(key, parsed, &pods) {
            let message =
                format!("pods by selector {selector} are controlled by more than one HPA (e.g. [{other} {key}])");
            return Err(BadSelector::Ambiguous(message));
        }
        let readings = self.metrics.read(key.namespace(), plan::metrics(autoscaler), selector).await;
        Ok(Measured { pods, readings })
    }

    /// Another autoscaler of these Pods. Notes whose Pods they are.
    fn rival(&self, key: &Key, selector: Selector, pods: &[Arc<Pod>]) -> Option<Key> {
        let mut known = self.known();
        known.entry(key.clone()).or_default().selector = Some(selector);
        let mut others = known.iter().filter(|(other, _)| *other != key && other.namespace() == key.namespace());
        let rival = others.find(|(_, known)| {
            known.selector.as_ref().is_some_and(|selector| pods.iter().any(|pod| selects(selector, pod)))
        });
        rival.map(|(other, _)| other.clone())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn selects(selector: &Selector, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    selector.matches(|name| labels.and_then(|labels| labels.get(name)).map(String::as_str))
}
