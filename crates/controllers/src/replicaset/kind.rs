//! What the kinds that keep so many Pods of one template have in common.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::core::{NamespaceResourceScope, Selector};
use pintle_runtime::controller::Watched;
use pintle_runtime::{Error, owner};

/// A ReplicaSet, or what was there before it.
pub(crate) trait Replicated: Watched + kube::Resource<Scope = NamespaceResourceScope> {
    /// The name of the loop.
    const LOOP: &'static str;
    /// Who Events say did it.
    const COMPONENT: &'static str;
    /// Whether the status says how many Pods are on their way out.
    const COUNTS_TERMINATING: bool;

    fn wanted(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn selector(&self) -> Result<Selector, Error>;
    /// The status, in the words of a ReplicaSet's.
    fn status(&self) -> Option<ReplicaSetStatus>;
}

impl Replicated for ReplicaSet {
    const LOOP: &'static str = "replicaset";
    const COMPONENT: &'static str = "replicaset-controller";
    const COUNTS_TERMINATING: bool = true;

    fn wanted(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn selector(&self) -> Result<Selector, Error> {
        let selector = self.spec.as_ref().map(|spec| &spec.selector);
        owner::parse_selector(selector.ok_or_else(|| Error::Invalid("a ReplicaSet without a spec".to_owned()))?)
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        self.status.clone()
    }
}
