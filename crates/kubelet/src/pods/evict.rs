//! Pods that a node which lacks something sends away.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::Key;

use super::{Pods, Seat, by_node};
use crate::plan::{Evicted, is_terminal};
use crate::pressure::Tenants;
use crate::statics::mirror::uid_at_runtime;

impl Seat {
    pub(super) fn evicted(&self) -> Option<Evicted> {
        self.evicted.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let all = self.pods.pods.by(by_node, &self.node).into_iter();
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        all.filter(move |pod| !is_terminal(phase(pod).as_deref()))
    }

    fn evicted(&self, pod: &Pod) -> Option<Evicted> {
        self.pods.seat_of(&Key::of(pod), pod.metadata.uid.as_deref()?)?.evicted()
    }
}
