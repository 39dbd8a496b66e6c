//! expose and autoscale: what is put in front of a Deployment and above it.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};
use std::net::Ipv4Addr;

#[tokio::test]
async fn expose_makes_a_service_with_an_address_and_endpoints() {
    let cluster = Cluster::with_web().await;
    assert_eq!(cluster.ok("expose deployment web --port=80 --target-port=8080").await, "service/web exposed\n");
    let services = Table::parse(&cluster.ok("get service -o wide").await);
    assert_eq!(services.names(), ["kubernetes", "web"]);
    assert_eq!(services.cell("web", "TYPE"), "ClusterIP");
    let address: Ipv4Addr = services.cell("web", "CLUSTER-IP").parse().unwrap();
    assert!(address.octets()[0] == 10 && (96..112).contains(&address.octets()[1]), "{address} is not in 10.96.0.0/12");
    assert_eq!(services.cell("web", "PORT(S)"), "80/TCP");
    assert_eq!(services.cell("web", "SELECTOR"), "app=web");
    assert_eq!(services.cell("kubernetes", "CLUSTER-IP"), "10.96.0.1");
    let addresses =
        "get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].addresses[0]}";
    let addresses = cluster.until(addresses, |found| found.split_whitespace().count() == 2).await;
    let pods = cluster.ok("get pods -o jsonpath={.items[*].status.podIP}").await;
    let sorted = |text: &str| {
        let mut words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(sorted(&addresses), sorted(&pods));
}

#[tokio::test]
async fn expose_as_node_port_gets_a_port() {
    let cluster = Cluster::with_web().await;
    cluster.ok("expose deployment web --port=80 --type=NodePort --name=door").await;
    let services = Table::parse(&cluster.ok("get service door").await);
    assert_eq!(services.cell("door", "TYPE"), "NodePort");
    let ports = services.cell("door", "PORT(S)");
    let port: u16 =
        ports.strip_prefix("80:").and_then(|p| p.strip_suffix("/TCP")).and_then(|p| p.parse().ok()).unwrap();
    assert!((30000..=32767).contains(&port), "{ports}");
    let said = cluster.fails("expose deployment web --port=80 --name=door").await;
    assert_says(&said, &["services \"door\" already exists"]);
}

#[tokio::test]
async fn autoscale_makes_an_autoscaler() {
    let cluster = Cluster::with_web().await;
    let said = cluster.ok("autoscale deployment web --min=2 --max=5 --cpu-percent=80").await;
    assert_eq!(said, "horizontalpodautoscaler.autoscaling/web autoscaled\n");
    let printed = cluster.ok("get hpa web").await;
    let table = Table::parse(&printed);
    assert_eq!(table.header, ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "AGE"]);
    assert_eq!(table.rows[0][..5], ["web", "Deployment/web", "cpu: <unknown>/80%", "2", "5"]);
    cluster.until("get hpa web -o jsonpath={.status.currentReplicas}", |replicas| replicas == "2").await;
    // kubectl writes version 1 and reads version 2; both are views of one object.
    let metric = cluster.ok("get hpa web -o jsonpath={.spec.metrics[0].resource}").await;
    assert_eq!(metric, r#"{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}}"#);
    let percent = cluster
        .ok("get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.spec.targetCPUUtilizationPercentage}")
        .await;
    assert_eq!(percent, "80");
    let said = squeezed(&cluster.ok("describe hpa web").await);
    assert_says(
        &said,
        &["Reference: Deployment/web\n", "resource cpu on pods (as a percentage of request): <unknown> / 80%\n"],
    );
}
