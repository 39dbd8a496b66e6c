//! What the server says about itself in objects: what it serves, and who holds which address.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::json;

fn label(service: &APIService) -> Option<&str> {
    service.metadata.labels.as_ref()?.get("kube-aggregator.kubernetes.io/automanaged").map(String::as_str)
}

#[tokio::test(start_paused = true)]
async fn every_served_version_has_an_api_service_that_says_it_is_available() {
    let cluster = Cluster::start().await;
    let services = Api::<APIService>::all(cluster.client().clone());
    let all = services.list(&kube::api::ListParams::default()).await.unwrap().items;
    for name in ["v1.", "v1.apps", "v2.autoscaling", "v1.flowcontrol.apiserver.k8s.io"] {
        let service = all.iter().find(|service| service.metadata.name.as_deref() == Some(name)).expect(name);
        assert_eq!(label(service), Some("onstart"), "{name}");
        let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref()).unwrap();
        assert_eq!((conditions[0].type_.as_str(), conditions[0].reason.as_deref()), ("Available", Some("Local")));
    }
    let apps = all.iter().find(|service| service.metadata.name.as_deref() == Some("v1.apps")).unwrap();
    let spec = apps.spec.as_ref().unwrap();
    assert_eq!((spec.group_priority_minimum, spec.version_priority), (17800, 15));

    services.delete("v1.apps", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(services.get_opt("v1.apps").await.unwrap().is_some(), "it is written again");
}

#[tokio::test(start_paused = true)]
async fn the_api_service_of_a_custom_group_comes_and_goes_with_its_definitions() {
    let cluster = Cluster::start().await;
    let services = Api::<APIService>::all(cluster.client().clone());
    let definition = |plural: &str, kind: &str, versions: &[&str]| {
        let version = |name: &&str| {
            json!({"name": name, "served": true, "storage": *name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}}})
        };
        let versions: Vec<_> = versions.iter().map(version).collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": versions}})
    };
    cluster.create(definition("foos", "Foo", &["v1", "v2"])).await.unwrap();
    cluster.create(definition("bars", "Bar", &["v1"])).await.unwrap();
    cluster.settle().await;
    let first = services.get("v1.example.com").await.unwrap();
    assert_eq!(label(&first), Some("true"));
    assert_eq!(first.spec.map(|spec| (spec.group_priority_minimum, spec.version_priority)), Some((1000, 100)));
    assert!(services.get_opt("v2.example.com").await.unwrap().is_some());

    services.delete("v1.example.com", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(services.get_opt("v1.example.com").await.unwrap().is_some(), "it is written again");

    let definitions = Api::<CustomResourceDefinition>::all(cluster.client().clone());
    definitions.delete("foos.example.com", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(services.get_opt("v1.example.com").await.unwrap().is_some(), "the other definition serves it");
    assert!(services.get_opt("v2.example.com").await.unwrap().is_none());
    definitions.delete("bars.example.com", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(services.get_opt("v1.example.com").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn every_address_of_a_service_is_shown_with_who_holds_it() {
    let cluster = Cluster::start().await;
    let addresses = Api::<IPAddress>::all(cluster.client().clone());
    let own = addresses.get("10.96.0.1").await.unwrap();
    let parent = own.spec.parent_ref;
    assert_eq!((parent.namespace.as_deref(), parent.name.as_str()), (Some("default"), "kubernetes"));

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}});
    cluster.create(service.clone()).await.unwrap();
    assert!(addresses.get_opt("10.96.0.77").await.unwrap().is_some(), "in the transaction of the Service");
    addresses.delete("10.96.0.77", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(addresses.get_opt("10.96.0.77").await.unwrap().is_some(), "the Service holds it still");

    let services = cluster.api::<Service>("default");
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com", "clusterIP": null, "clusterIPs": null}});
    services.patch("web", &PatchParams::default(), &Patch::Merge(external)).await.unwrap();
    assert!(addresses.get_opt("10.96.0.77").await.unwrap().is_none());
    services.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.create(service.clone()).await.unwrap();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(addresses.get_opt("10.96.0.77").await.unwrap().is_none());

    let reserved = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.96.0.77"},
        "spec": {"parentRef": {"resource": "gateways", "group": "example.com", "name": "edge"}}});
    cluster.create(reserved).await.unwrap();
    let refused = cluster.create(service).await.unwrap_err().to_string();
    assert!(refused.contains("provided IP is already allocated"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_range_of_addresses_and_who_may_read_the_authentication_are_there() {
    let cluster = Cluster::start().await;
    let ranges = Api::<ServiceCIDR>::all(cluster.client().clone());
    let range = ranges.get("kubernetes").await.unwrap();
    assert_eq!(range.spec.and_then(|spec| spec.cidrs), Some(vec!["10.96.0.0/12".to_owned()]));
    let conditions = range.status.and_then(|status| status.conditions).unwrap();
    assert_eq!((conditions[0].type_.as_str(), conditions[0].status.as_str()), ("Ready", "True"));
    ranges.delete("kubernetes", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(ranges.get_opt("kubernetes").await.unwrap().is_some());
    let roles = cluster.api::<Role>("kube-system");
    assert!(roles.get_opt("extension-apiserver-authentication-reader").await.unwrap().is_some());
}
