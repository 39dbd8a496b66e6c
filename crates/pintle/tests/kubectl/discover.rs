//! version, api-resources, api-versions, cluster-info and explain: what kind of cluster this is.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};

#[tokio::test]
async fn version_says_which_kubernetes_this_is() {
    let cluster = Cluster::start().await;
    let version = cluster.ok("version").await;
    assert_says(&version, &["Client Version: v1.", "Server Version: v1.36.4+pintle-"]);
    let version: serde_json::Value = serde_json::from_str(&cluster.ok("version -o json").await).unwrap();
    assert_eq!(version["serverVersion"]["major"], "1");
    assert_eq!(version["serverVersion"]["minor"], "36");
    assert_eq!(version["serverVersion"]["platform"].as_str().map(|p| p.contains('/')), Some(true));
}

#[tokio::test]
async fn api_resources_lists_every_kind_with_its_short_names() {
    let cluster = Cluster::start().await;
    let printed = cluster.ok("api-resources").await;
    let squeezed = squeezed(&printed);
    assert_says(
        &squeezed,
        &[
            "NAME SHORTNAMES APIVERSION NAMESPACED KIND\n",
            "configmaps cm v1 true ConfigMap\n",
            "pods po v1 true Pod\n",
            "nodes no v1 false Node\n",
            "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition\n",
            "deployments deploy apps/v1 true Deployment\n",
            "horizontalpodautoscalers hpa autoscaling/v2 true HorizontalPodAutoscaler\n",
            "leases coordination.k8s.io/v1 true Lease\n",
            "clusterroles rbac.authorization.k8s.io/v1 false ClusterRole\n",
        ],
    );
    let wide = cluster.ok("api-resources -o wide --api-group=apps").await;
    let table = Table::parse(&wide);
    assert_eq!(table.header.last().map(String::as_str), Some("CATEGORIES"));
    assert_eq!(table.names(), ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]);
    assert_says(&wide, &["create,delete,deletecollection,get,list,patch,update,watch   all"]);
    let cluster_scoped = cluster.ok("api-resources --namespaced=false -o name").await;
    assert_says(&cluster_scoped, &["namespaces\n", "nodes\n", "clusterroles.rbac.authorization.k8s.io\n"]);
    assert!(!cluster_scoped.contains("pods\n"), "{cluster_scoped}");
}

#[tokio::test]
async fn api_versions_lists_the_groups() {
    let cluster = Cluster::start().await;
    let versions = cluster.ok("api-versions").await;
    let versions: Vec<_> = versions.lines().collect();
    for version in ["v1", "apps/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1", "events.k8s.io/v1", "policy/v1"] {
        assert!(versions.contains(&version), "{version} is not in {versions:?}");
    }
}

#[tokio::test]
async fn cluster_info_says_where_the_control_plane_is() {
    let cluster = Cluster::start().await;
    let said = cluster.ok("cluster-info").await;
    assert_says(&said, &["Kubernetes control plane", "is running at", "https://127.0.0.1:"]);
}

#[tokio::test]
async fn explain_tells_a_kind_with_its_fields() {
    let cluster = Cluster::start().await;
    let said = cluster.ok("explain deployment").await;
    assert_says(&said, &["GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n", "DESCRIPTION:\n", "FIELDS:\n"]);
    assert_says(&said, &["Deployment enables declarative updates for Pods and ReplicaSets."]);
    assert_says(&said, &["  spec\t<DeploymentSpec>\n", "  metadata\t<ObjectMeta>\n", "  status\t<DeploymentStatus>\n"]);
}

#[tokio::test]
async fn explain_tells_a_field_with_its_type_and_meaning() {
    let cluster = Cluster::start().await;
    let said = cluster.ok("explain deploy.spec.replicas").await;
    assert_says(&said, &["FIELD: replicas <integer>\n", "Number of desired pods."]);
    let said = cluster.ok("explain pod.spec.containers").await;
    assert_says(&said, &["FIELD: containers <[]Container>\n", "  name\t<string> -required-\n", "  image\t<string>\n"]);
    let said = cluster.ok("explain hpa.spec --api-version=autoscaling/v1").await;
    assert_says(&said, &["VERSION:    v1\n", "targetCPUUtilizationPercentage\t<integer>"]);
}

#[tokio::test]
async fn explain_lists_the_values_of_an_enumeration() {
    let cluster = Cluster::start().await;
    let said = cluster.ok("explain pod.spec.restartPolicy").await;
    assert_says(&said, &["FIELD: restartPolicy <string>\nENUM:\n    Always\n    Never\n    OnFailure\n"]);
}

#[tokio::test]
async fn explain_recursive_draws_the_tree() {
    let cluster = Cluster::start().await;
    let said = cluster.ok("explain deployment.spec.strategy --recursive").await;
    assert_says(
        &said,
        &[
            "FIELD: strategy <DeploymentStrategy>\n",
            "FIELDS:\n  rollingUpdate\t<RollingUpdateDeployment>\n    maxSurge\t<IntOrString>\n    maxUnavailable\t<IntOrString>\n  type\t<string>\n",
        ],
    );
    let said = cluster.ok("explain pod --recursive").await;
    assert_says(&said, &["      livenessProbe\t<Probe>\n        exec\t<ExecAction>\n          command\t<[]string>\n"]);
}

#[tokio::test]
async fn explain_of_a_field_that_is_not_there_says_so() {
    let cluster = Cluster::start().await;
    assert_says(&cluster.fails("explain pod.spec.colour").await, &["error: field \"colour\" does not exist"]);
    let said = cluster.fails("explain ships").await;
    assert_says(&said, &["the server doesn't have a resource type \"ships\""]);
}
