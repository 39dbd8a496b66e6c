//! Pods that a node which lacks something does not take on, and those that it sends away.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::{Error, Key};

use super::observe::observe;
use super::{BY_NODE, Memory, Pods, Seat};
use crate::plan::{Evicted, is_terminal};
use crate::pressure::{self, Tenants};
use crate::statics::mirror::uid_at_runtime;

impl Seat {
    pub(super) fn evicted(&self) -> Option<Evicted> {
        self.evicted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Pods {
    /// Says no to a Pod of which nothing runs yet, if the node cannot take it on. The answer is given once in its life here.
    pub(super) async fn refuse(
        &self,
        pod: &Pod,
        seat: &Seat,
        status: &PodStatus,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let ends = pod.metadata.deletion_timestamp.is_some() || is_terminal(status.phase.as_deref());
        if memory.admitted || ends {
            return Ok(false);
        }
        let conditions = seat.home.pressure.conditions();
        let refusal = pressure::refusal(pod, &conditions);
        // After a restart of this agent the Pod may run already.
        let Some(message) = refusal.filter(|_| status.start_time.is_none()) else {
            memory.admitted = true;
            return Ok(false);
        };
        if !observe(seat).await?.sandboxes.is_empty() {
            memory.admitted = true;
            return Ok(false);
        }
        seat.home.recorder.warning(pod, "Evicted", message.clone());
        let refused = PodStatus {
            phase: Some("Failed".to_owned()),
            reason: Some("Evicted".to_owned()),
            message: Some(format!("Pod was rejected: {message}")),
            start_time: Some(Time(self.now())),
            observed_generation: pod.metadata.generation,
            ..status.clone()
        };
        self.write_status(pod, status, &refused, memory).await?;
        Ok(true)
    }
}

/// The Pods of one node, for the one who watches what it lacks.
pub(crate) struct Tenancy {
    pub(crate) pods: Pods,
    pub(crate) node: String,
}

impl Tenants for Tenancy {
    fn active(&self) -> Vec<Arc<Pod>> {
        self.unfinished().filter(|pod| self.evicted(pod).is_none()).collect()
    }

    fn living(&self) -> BTreeSet<String> {
        self.unfinished().map(|pod| uid_at_runtime(&pod).to_owned()).collect()
    }

    fn evict(&self, pod: &Pod, evicted: Evicted) {
        let (Some(uid), Some(home)) = (pod.metadata.uid.as_deref(), self.pods.home(&self.node)) else { return };
        let key = Key::of(pod);
        let seat = self.pods.seat(&key, uid, &home);
        *seat.evicted.lock().unwrap_or_else(PoisonError::into_inner) = Some(evicted);
        self.pods.waker.add(key);
    }

    fn is_finished(&self, pod: &Pod) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let seat = self.pods.seat_of(&Key::of(pod), uid);
        seat.is_none_or(|seat| seat.finished.load(Ordering::Acquire))
    }
}

impl Tenancy {
    fn unfinished(&self) -> impl Iterator<Item = Arc<Pod>> {
        let all = self.pods.pods.by_index(BY_NODE, &self.node).into_iter();
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        all.filter(move |pod| !is_terminal(phase(pod).as_deref()))
    }

    fn evicted(&self, pod: &Pod) -> Option<Evicted> {
        self.pods.seat_of(&Key::of(pod), pod.metadata.uid.as_deref()?)?.evicted()
    }
}
