//! The loop that writes the rules of aggregating roles.

use crate::{create, torture, with};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, ListParams};
use pintle_testkit::{Cluster, Scenario};
use serde_json::{Value, json};

fn part(name: &str, resource: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"example.com/to": "all", "rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"]}]})
}

/// Which resources of ours a role shows.
async fn shown(cluster: &Cluster, name: &str) -> Vec<String> {
    let role = Api::<ClusterRole>::all(cluster.client()).get(name).await.unwrap();
    let ours = role.rules.unwrap_or_default().into_iter();
    let ours = ours.filter(|rule| rule.api_groups.iter().flatten().any(|group| group == "example.com"));
    ours.flat_map(|rule| rule.resources.unwrap_or_default()).collect()
}

fn all() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"example.com/to": "all"}}]}})
}

#[test]
fn aggregating_roles_end_the_same_wherever_their_loop_is_lost() {
    let scenario = Scenario::of("clusterrole-aggregation-controller")
        .on(with(&["clusterroleaggregation"], 0, false))
        .steps(|cluster| async move {
            create(&cluster, all()).await;
            for (name, resource) in [("b", "things"), ("a", "parts")] {
                create(&cluster, part(name, resource)).await;
                cluster.settle().await;
            }
            let roles = Api::<ClusterRole>::all(cluster.client());
            roles.delete("b", &DeleteParams::default()).await.unwrap();
        });
    torture(&scenario);
}

#[tokio::test(start_paused = true)]
async fn who_reads_an_aggregating_role_sees_what_it_allows() {
    let cluster = with(&["clusterroleaggregation"], 0, false).start().await;
    let versions = async || {
        let roles = Api::<ClusterRole>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
        roles.items.into_iter().map(|role| role.metadata.resource_version).collect::<Vec<_>>()
    };
    let before = versions().await;
    cluster.settle().await;
    assert_eq!(versions().await, before, "the default roles show everything from the start");
    create(&cluster, all()).await;
    for (name, resource) in [("b", "things"), ("a", "parts")] {
        create(&cluster, part(name, resource)).await;
        cluster.settle().await;
    }
    for role in ["all", "view", "edit", "admin"] {
        assert_eq!(shown(&cluster, role).await, ["parts", "things"], "{role}");
    }
    let roles = Api::<ClusterRole>::all(cluster.client());
    roles.delete("b", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(shown(&cluster, "all").await, ["parts"]);
}
