//! The kinds of Kubernetes, and those that are known only at run time.
//!
//! Each has its code in a static of this crate: a crate that names the kind refers to it and compiles nothing.

use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;

use crate::codec::{Codec, Kind};

macro_rules! kinds {
    ($($group:ident::$version:ident { $($kind:ident),* $(,)? })*) => {
        $($(kind!(k8s_openapi::api::$group::$version::$kind);)*)*
    };
}

macro_rules! kind {
    ($kind:ty) => {
        impl Kind for $kind {
            const CODEC: &'static Codec = {
                static CODEC: Codec = Codec::of::<$kind>();
                &CODEC
            };
        }
    };
}

kinds! {
    admissionregistration::v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    }
    apps::v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
    authentication::v1 { SelfSubjectReview, TokenRequest, TokenReview }
    authorization::v1 {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    }
    autoscaling::v1 { Scale }
    autoscaling::v2 { HorizontalPodAutoscaler }
    batch::v1 { CronJob, Job }
    certificates::v1 { CertificateSigningRequest }
    certificates::v1beta1 { ClusterTrustBundle, PodCertificateRequest }
    coordination::v1 { Lease }
    core::v1 {
        Binding, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    }
    discovery::v1 { EndpointSlice }
    flowcontrol::v1 { FlowSchema, PriorityLevelConfiguration }
    networking::v1 { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
    node::v1 { RuntimeClass }
    policy::v1 { Eviction, PodDisruptionBudget }
    rbac::v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
    resource::v1 { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    scheduling::v1 { PriorityClass }
    storage::v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    }
}

kind!(k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition);
kind!(k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService);
kind!(k8s_openapi::api::events::v1::Event);
kind!(DynamicObject);
kind!(PartialObjectMeta<DynamicObject>);
