//! The documentation of fields, for columns and `kubectl explain`: what the library of API types knows of them.
//!
//! It is made when somebody asks and not kept, but for the few sentences that tables show.

use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use pintle_meta::object;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{LazyLock, RwLock};

/// Adds a kind, and every type that it is made of, to the definitions.
type Add = fn(&mut SchemaGenerator);

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}

/// What was asked for before.
static KNOWN: LazyLock<RwLock<BTreeMap<String, String>>> = LazyLock::new(RwLock::default);

/// What a column shows. The name of a field (`core.v1.PodStatus.phase`) stands for its documentation; anything else
/// is already a sentence.
pub fn describe(about: &str) -> String {
    let names_a_field = !about.contains(' ') && about.contains('.');
    if !names_a_field {
        return about.to_owned();
    }
    if let Some(known) = KNOWN.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(about) {
        return known.clone();
    }
    let found = look_up(about).unwrap_or_default();
    let mut known = KNOWN.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.insert(about.to_owned(), found.clone());
    found
}

fn look_up(about: &str) -> Option<String> {
    let (type_name, field) = about.rsplit_once('.')?;
    let definition = pintle_schema::openapi::definition_name(type_name);
    let (group, short) = type_name.rsplit_once('.')?;
    // A type is named after its kind, mostly: the longest name that fits is tried first, then all of the group.
    let mut kinds: Vec<&(&str, &str, Add)> = KINDS.iter().filter(|(g, _, _)| *g == group).collect();
    kinds.sort_by_key(|(_, kind, _)| std::cmp::Reverse(if short.starts_with(kind) { kind.len() } else { 0 }));
    // Metadata is part of every kind.
    let kinds = if group == "meta.v1" { vec![&KINDS[0]] } else { kinds };
    kinds.into_iter().find_map(|(_, _, add)| {
        let definitions = definitions(&[*add]);
        let found = object::text(definitions.get(&definition)?, &["properties", field, "description"]);
        (!found.is_empty()).then(|| found.to_owned())
    })
}

fn definitions(kinds: &[Add]) -> Map<String, Value> {
    let mut generator = SchemaGenerator::default();
    kinds.iter().for_each(|add| add(&mut generator));
    generator.take_definitions(false)
}

/// Adds their documentation to the schemas of types, by the names that OpenAPI has for them.
pub fn document(schemas: &mut Map<String, Value>) {
    let groups: Vec<String> = schemas.keys().filter_map(|name| group_of(name)).collect();
    let mut kinds: Vec<Add> =
        KINDS.iter().filter(|(g, _, _)| groups.iter().any(|of| of == g)).map(|(_, _, add)| *add).collect();
    // Of a custom group metadata is all that is built in: it comes with any kind.
    kinds.push(KINDS[0].2);
    let mut definitions = definitions(&kinds);
    for (name, schema) in schemas.iter_mut() {
        let Some(mut documented) = definitions.remove(name) else { continue };
        if let Some(text) = documented.get_mut("description").map(Value::take) {
            schema["description"] = text;
        }
        for (field, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let text = documented.pointer_mut(&format!("/properties/{field}/description")).map(Value::take);
            if let Some(text) = text {
                // What stands beside a reference is not read: the reference goes into a list of its own.
                if let Some(reference) = property.get("$ref").cloned() {
                    *property = json!({"allOf": [{"$ref": reference}]});
                }
                property["description"] = text;
            }
        }
    }
}

/// `core.v1` of `io.k8s.api.core.v1.Pod`.
fn group_of(definition: &str) -> Option<String> {
    let mut parts = definition.rsplit('.');
    let (_, version, group) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{group}.{version}"))
}

/// Every kind that is served: its group and version as the facts name them, its name, how to describe it.
const KINDS: &[(&str, &str, Add)] = {
    use k8s_openapi::api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps, authentication::v1 as authentication,
        authorization::v1 as authorization, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling,
        batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol, networking::v1 as networking,
        node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource,
        scheduling::v1 as scheduling, storage::v1 as storage,
    };
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
    use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
    &[
        ("core.v1", "ConfigMap", add::<core::ConfigMap>),
        ("core.v1", "Binding", add::<core::Binding>),
        ("core.v1", "ComponentStatus", add::<core::ComponentStatus>),
        ("core.v1", "Endpoints", add::<core::Endpoints>),
        ("core.v1", "Event", add::<core::Event>),
        ("core.v1", "LimitRange", add::<core::LimitRange>),
        ("core.v1", "Namespace", add::<core::Namespace>),
        ("core.v1", "Node", add::<core::Node>),
        ("core.v1", "PersistentVolume", add::<core::PersistentVolume>),
        ("core.v1", "PersistentVolumeClaim", add::<core::PersistentVolumeClaim>),
        ("core.v1", "Pod", add::<core::Pod>),
        ("core.v1", "PodTemplate", add::<core::PodTemplate>),
        ("core.v1", "ReplicationController", add::<core::ReplicationController>),
        ("core.v1", "ResourceQuota", add::<core::ResourceQuota>),
        ("core.v1", "Secret", add::<core::Secret>),
        ("core.v1", "Service", add::<core::Service>),
        ("core.v1", "ServiceAccount", add::<core::ServiceAccount>),
        ("meta.v1", "DeleteOptions", add::<meta::DeleteOptions>),
        ("admissionregistration.v1", "MutatingAdmissionPolicy", add::<admissionregistration::MutatingAdmissionPolicy>),
        (
            "admissionregistration.v1",
            "MutatingAdmissionPolicyBinding",
            add::<admissionregistration::MutatingAdmissionPolicyBinding>,
        ),
        (
            "admissionregistration.v1",
            "MutatingWebhookConfiguration",
            add::<admissionregistration::MutatingWebhookConfiguration>,
        ),
        (
            "admissionregistration.v1",
            "ValidatingAdmissionPolicy",
            add::<admissionregistration::ValidatingAdmissionPolicy>,
        ),
        (
            "admissionregistration.v1",
            "ValidatingAdmissionPolicyBinding",
            add::<admissionregistration::ValidatingAdmissionPolicyBinding>,
        ),
        (
            "admissionregistration.v1",
            "ValidatingWebhookConfiguration",
            add::<admissionregistration::ValidatingWebhookConfiguration>,
        ),
        ("apiextensions.v1", "CustomResourceDefinition", add::<apiextensions::CustomResourceDefinition>),
        ("apiregistration.v1", "APIService", add::<apiregistration::APIService>),
        ("apps.v1", "ControllerRevision", add::<apps::ControllerRevision>),
        ("apps.v1", "DaemonSet", add::<apps::DaemonSet>),
        ("apps.v1", "Deployment", add::<apps::Deployment>),
        ("apps.v1", "ReplicaSet", add::<apps::ReplicaSet>),
        ("apps.v1", "StatefulSet", add::<apps::StatefulSet>),
        ("authentication.v1", "SelfSubjectReview", add::<authentication::SelfSubjectReview>),
        ("authentication.v1", "TokenRequest", add::<authentication::TokenRequest>),
        ("authentication.v1", "TokenReview", add::<authentication::TokenReview>),
        ("authorization.v1", "LocalSubjectAccessReview", add::<authorization::LocalSubjectAccessReview>),
        ("authorization.v1", "SelfSubjectAccessReview", add::<authorization::SelfSubjectAccessReview>),
        ("authorization.v1", "SelfSubjectRulesReview", add::<authorization::SelfSubjectRulesReview>),
        ("authorization.v1", "SubjectAccessReview", add::<authorization::SubjectAccessReview>),
        ("autoscaling.v1", "HorizontalPodAutoscaler", add::<autoscaling_v1::HorizontalPodAutoscaler>),
        ("autoscaling.v1", "Scale", add::<autoscaling_v1::Scale>),
        ("autoscaling.v2", "HorizontalPodAutoscaler", add::<autoscaling::HorizontalPodAutoscaler>),
        ("batch.v1", "CronJob", add::<batch::CronJob>),
        ("batch.v1", "Job", add::<batch::Job>),
        ("certificates.v1", "CertificateSigningRequest", add::<certificates::CertificateSigningRequest>),
        ("coordination.v1", "Lease", add::<coordination::Lease>),
        ("discovery.v1", "EndpointSlice", add::<discovery::EndpointSlice>),
        ("events.v1", "Event", add::<events::Event>),
        ("flowcontrol.v1", "FlowSchema", add::<flowcontrol::FlowSchema>),
        ("flowcontrol.v1", "PriorityLevelConfiguration", add::<flowcontrol::PriorityLevelConfiguration>),
        ("networking.v1", "IPAddress", add::<networking::IPAddress>),
        ("networking.v1", "Ingress", add::<networking::Ingress>),
        ("networking.v1", "IngressClass", add::<networking::IngressClass>),
        ("networking.v1", "NetworkPolicy", add::<networking::NetworkPolicy>),
        ("networking.v1", "ServiceCIDR", add::<networking::ServiceCIDR>),
        ("node.v1", "RuntimeClass", add::<node::RuntimeClass>),
        ("policy.v1", "Eviction", add::<policy::Eviction>),
        ("policy.v1", "PodDisruptionBudget", add::<policy::PodDisruptionBudget>),
        ("rbac.v1", "ClusterRole", add::<rbac::ClusterRole>),
        ("rbac.v1", "ClusterRoleBinding", add::<rbac::ClusterRoleBinding>),
        ("rbac.v1", "Role", add::<rbac::Role>),
        ("rbac.v1", "RoleBinding", add::<rbac::RoleBinding>),
        ("resource.v1", "DeviceClass", add::<resource::DeviceClass>),
        ("resource.v1", "ResourceClaim", add::<resource::ResourceClaim>),
        ("resource.v1", "ResourceClaimTemplate", add::<resource::ResourceClaimTemplate>),
        ("resource.v1", "ResourceSlice", add::<resource::ResourceSlice>),
        ("scheduling.v1", "PriorityClass", add::<scheduling::PriorityClass>),
        ("storage.v1", "CSIDriver", add::<storage::CSIDriver>),
        ("storage.v1", "CSINode", add::<storage::CSINode>),
        ("storage.v1", "CSIStorageCapacity", add::<storage::CSIStorageCapacity>),
        ("storage.v1", "StorageClass", add::<storage::StorageClass>),
        ("storage.v1", "VolumeAttachment", add::<storage::VolumeAttachment>),
        ("storage.v1", "VolumeAttributesClass", add::<storage::VolumeAttributesClass>),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn every_column_that_names_a_field_is_described() {
        for resource in Catalogue::default().resources() {
            for column in resource.strategy.columns() {
                let about = column.about;
                assert!(about.is_empty() || !describe(&about).is_empty(), "{} {}: {about}", resource.kind, column.name);
            }
        }
    }

    #[test]
    fn explain_finds_words_for_a_field() {
        let mut schemas = pintle_schema::openapi::components_for(&["core.v1.Pod"]);
        document(&mut schemas);
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
        assert!(spec["properties"]["nodeName"]["description"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(schemas["io.k8s.api.core.v1.Pod"]["description"].is_string());
    }
}
