//! What is special about each built-in kind: one file per kind, listed here.

use crate::strategy::{Plain, Strategy};
use std::sync::Arc;

pub mod check;
pub mod client_config;
pub mod defaults;
pub mod described;
pub mod print;
pub mod rules;

mod admissionregistration;
pub mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
pub(crate) mod certificates;
mod coordination;
pub(crate) mod core;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;

/// The strategy of a built-in kind.
pub fn strategy(group: &str, version: &str, kind: &str) -> Arc<dyn Strategy> {
    match (group, kind) {
        ("", "ConfigMap") => Arc::new(core::config_map::ConfigMap),
        ("", "Endpoints") => Arc::new(core::endpoints::Endpoints),
        ("", "Event") => Arc::new(core::event::Event),
        ("", "LimitRange") => Arc::new(core::limit_range::LimitRange),
        ("", "Namespace") => Arc::new(core::namespace::Namespace),
        ("", "Node") => Arc::new(core::node::Node),
        ("", "PersistentVolume") => Arc::new(core::persistent_volume::PersistentVolume),
        ("", "PersistentVolumeClaim") => Arc::new(core::persistent_volume_claim::PersistentVolumeClaim),
        ("", "Pod") => Arc::new(core::pod::Pod),
        ("", "PodTemplate") => Arc::new(core::pod_template::POD_TEMPLATE),
        ("", "ReplicationController") => Arc::new(core::replication_controller::ReplicationController),
        ("", "ResourceQuota") => Arc::new(core::resource_quota::ResourceQuota),
        ("", "Secret") => Arc::new(core::secret::Secret),
        ("", "Service") => Arc::new(core::service::Service),
        ("", "ServiceAccount") => Arc::new(core::service_account::SERVICE_ACCOUNT),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            Arc::new(admissionregistration::webhook::WEBHOOK_CONFIGURATION)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            Arc::new(admissionregistration::policy::MUTATING_POLICY)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            Arc::new(admissionregistration::policy::VALIDATING_POLICY)
        }
        ("admissionregistration.k8s.io", _) => Arc::new(admissionregistration::policy::POLICY_BINDING),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Arc::new(apiextensions::definition::Definition),
        ("apiregistration.k8s.io", "APIService") => Arc::new(apiregistration::api_service::ApiService),
        ("apps", "ControllerRevision") => Arc::new(apps::controller_revision::CONTROLLER_REVISION),
        ("apps", "DaemonSet") => Arc::new(apps::daemon_set::DaemonSet),
        ("apps", "Deployment") => Arc::new(apps::deployment::Deployment),
        ("apps", "ReplicaSet") => Arc::new(apps::replica_set::ReplicaSet),
        ("apps", "StatefulSet") => Arc::new(apps::stateful_set::StatefulSet),
        ("autoscaling", "HorizontalPodAutoscaler") if version == "v1" => {
            Arc::new(autoscaling::v1::HorizontalPodAutoscalerV1)
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            Arc::new(autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscaler)
        }
        ("batch", "CronJob") => Arc::new(batch::cron_job::CronJob),
        ("batch", "Job") => Arc::new(batch::job::Job),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            Arc::new(certificates::signing_request::CertificateSigningRequest)
        }
        ("coordination.k8s.io", "Lease") => Arc::new(coordination::lease::Lease),
        ("discovery.k8s.io", "EndpointSlice") => Arc::new(discovery::endpoint_slice::EndpointSlice),
        ("events.k8s.io", "Event") => Arc::new(events::Event),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => Arc::new(flowcontrol::FLOW_SCHEMA),
        ("flowcontrol.apiserver.k8s.io", _) => Arc::new(flowcontrol::PRIORITY_LEVEL_CONFIGURATION),
        ("networking.k8s.io", "IPAddress") => Arc::new(networking::address::IP_ADDRESS),
        ("networking.k8s.io", "Ingress") => Arc::new(networking::ingress::Ingress),
        ("networking.k8s.io", "IngressClass") => Arc::new(networking::ingress_class::IngressClass),
        ("networking.k8s.io", "NetworkPolicy") => Arc::new(networking::network_policy::NetworkPolicy),
        ("networking.k8s.io", "ServiceCIDR") => Arc::new(networking::address::SERVICE_CIDR),
        ("node.k8s.io", "RuntimeClass") => Arc::new(node::RUNTIME_CLASS),
        ("policy", "PodDisruptionBudget") => Arc::new(policy::pod_disruption_budget::PodDisruptionBudget),
        ("rbac.authorization.k8s.io", "Role") => Arc::new(rbac::role::Role { cluster: false }),
        ("rbac.authorization.k8s.io", "ClusterRole") => Arc::new(rbac::role::Role { cluster: true }),
        ("rbac.authorization.k8s.io", "RoleBinding") => Arc::new(rbac::binding::Binding { cluster: false }),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => Arc::new(rbac::binding::Binding { cluster: true }),
        ("resource.k8s.io", "DeviceClass") => Arc::new(resource::DEVICE_CLASS),
        ("resource.k8s.io", "ResourceClaim") => Arc::new(resource::resource_claim::ResourceClaim),
        ("resource.k8s.io", "ResourceClaimTemplate") => Arc::new(resource::RESOURCE_CLAIM_TEMPLATE),
        ("resource.k8s.io", "ResourceSlice") => Arc::new(resource::RESOURCE_SLICE),
        ("scheduling.k8s.io", "PriorityClass") => Arc::new(scheduling::priority_class::PriorityClass),
        ("storage.k8s.io", "CSIDriver") => Arc::new(storage::csi::CSI_DRIVER),
        ("storage.k8s.io", "CSINode") => Arc::new(storage::csi::CSI_NODE),
        ("storage.k8s.io", "CSIStorageCapacity") => Arc::new(storage::csi::CSI_STORAGE_CAPACITY),
        ("storage.k8s.io", "StorageClass") => Arc::new(storage::storage_class::StorageClass),
        ("storage.k8s.io", "VolumeAttachment") => Arc::new(storage::volume::VOLUME_ATTACHMENT),
        ("storage.k8s.io", "VolumeAttributesClass") => Arc::new(storage::volume::VOLUME_ATTRIBUTES_CLASS),
        _ => Arc::new(Plain),
    }
}

/// In which version objects are kept.
pub fn stored_api_version(group: &str, version: &str, resource: &str) -> String {
    match (group, resource) {
        ("autoscaling", "horizontalpodautoscalers") => "autoscaling/v2".to_owned(),
        ("events.k8s.io", "events") => "v1".to_owned(),
        _ => pintle_meta::names::join_api_version(group, version),
    }
}
