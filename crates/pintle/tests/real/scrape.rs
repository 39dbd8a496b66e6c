//! What metrics-server and Prometheus do: read a node's metrics from a Pod, with the token of its account.

use std::process::Command;

use serde_json::json;

use crate::inside::{Alone, kubectl};
use crate::node::{Real, can_run};

#[tokio::test]
async fn a_scraper_in_a_pod_reads_the_nodes_metrics_with_its_token() {
    if !can_run() {
        return;
    }
    let alone = Alone::new("scrape");
    // An address of its own, on a network that leads nowhere.
    for line in [
        "link add out type veth peer name nowhere",
        "addr add 192.0.2.7/24 dev out",
        "link set nowhere up",
        "link set out up",
        "route add 198.51.100.0/24 dev out",
    ] {
        let words = ["-n", &alone.0].into_iter().chain(line.split(' '));
        let done = Command::new("ip").args(words).status();
        assert!(done.is_ok_and(|status| status.success()), "ip {line}");
    }
    let cluster = Real::start_in(alone.place(), &[]).await;
    let address = cluster.ok("get nodes -o jsonpath={.items[0].status.addresses[0].address}").await;
    assert_eq!(address, "192.0.2.7");
    cluster.ok("create serviceaccount scraper").await;
    cluster.ok("create clusterrole scrapes --verb=get --resource=nodes/metrics").await;
    cluster.ok("create clusterrolebinding scrapes --clusterrole=scrapes --serviceaccount=default:scraper").await;
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    let ask = format!("kubectl --server=https://192.0.2.7:10250 --certificate-authority={account}/ca.crt");
    let script = format!(
        "ask='{ask}'; token=$(cat {account}/token); \
         until $ask --token=$token get --raw /metrics/resource; do sleep 0.2; done; \
         $ask --token=$token get --raw /metrics/cadvisor; \
         $ask --token=$token get --raw /stats/summary 2>&1; \
         $ask --token=madeup get --raw /metrics 2>&1; echo done; sleep 1000"
    );
    cluster
        .pod(
            "scraper",
            json!({"serviceAccountName": "scraper", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "script": script,
                    "volumeMounts": [{"name": "kubectl", "mountPath": "/bin/kubectl", "readOnly": true}]}],
                "volumes": [{"name": "kubectl", "hostPath": {"path": kubectl(), "type": "File"}}]}),
        )
        .await;
    let said = cluster.until("logs scraper", |said| said.contains("done")).await;
    for family in [
        "node_cpu_usage_seconds_total ",
        "node_memory_working_set_bytes ",
        "container_cpu_usage_seconds_total{container=\"c\"",
        "pod_memory_working_set_bytes{namespace=\"default\",pod=\"scraper\"}",
        "container_memory_usage_bytes{",
        "container_network_receive_bytes_total{",
        "machine_cpu_cores ",
    ] {
        assert!(said.contains(family), "{family} is not in\n{said}");
    }
    assert!(said.contains("Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes"), "{said}");
    assert!(said.contains("You must be logged in to the server"), "{said}");
}
