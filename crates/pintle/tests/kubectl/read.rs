//! get in every form and describe: what is in the cluster.

use super::table::{Table, is_age};
use super::{Cluster, assert_says, squeezed};
use serde_json::Value;

#[tokio::test]
async fn get_has_the_columns_that_everybody_knows() {
    let cluster = Cluster::with_web().await;
    cluster.ok("expose deployment web --port=80").await;
    let expected = [
        ("deployments", "NAME READY UP-TO-DATE AVAILABLE AGE"),
        ("replicasets", "NAME DESIRED CURRENT READY AGE"),
        ("pods", "NAME READY STATUS RESTARTS AGE"),
        ("services", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE"),
        ("endpointslices", "NAME ADDRESSTYPE PORTS ENDPOINTS AGE"),
        ("configmaps", "NAME DATA AGE"),
        ("serviceaccounts", "NAME AGE"),
        ("nodes", "NAME STATUS ROLES AGE VERSION"),
        ("namespaces", "NAME STATUS AGE"),
        ("events", "LAST SEEN TYPE REASON OBJECT MESSAGE"),
        ("clusterroles", "NAME CREATED AT"),
    ];
    let mut wrong = String::new();
    for (resource, header) in expected {
        let printed = cluster.ok(&format!("get {resource}")).await;
        let got = squeezed(printed.lines().next().unwrap_or_default());
        if got.trim_end() != header {
            wrong += &format!("{resource}: {header}, but got {got}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn get_shows_a_deployment_its_replica_set_and_its_pods() {
    let cluster = Cluster::with_web().await;
    let deployments = Table::parse(&cluster.ok("get deployments").await);
    assert_eq!(deployments.rows[0][..4], ["web", "2/2", "2", "2"]);
    assert!(is_age(deployments.cell("web", "AGE")));
    let sets = Table::parse(&cluster.ok("get rs").await);
    assert_eq!(sets.rows[0][1..4], ["2", "2", "2"]);
    let pods = Table::parse(&cluster.ok("get po").await);
    assert_eq!(pods.rows.len(), 2);
    for pod in &pods.rows {
        assert!(pod[0].starts_with(&sets.rows[0][0]), "{pod:?} is not of {:?}", sets.rows);
        assert_eq!(pod[1..4], ["1/1", "Running", "0"]);
    }
}

#[tokio::test]
async fn get_wide_adds_where_and_what() {
    let cluster = Cluster::with_web().await;
    let deployments = Table::parse(&cluster.ok("get deployments -o wide").await);
    assert_eq!(deployments.header[5..], ["CONTAINERS", "IMAGES", "SELECTOR"]);
    assert_eq!(deployments.rows[0][5..], ["nginx", "nginx:1.25", "app=web"]);
    let pods = Table::parse(&cluster.ok("get pods -o wide").await);
    assert_eq!(pods.header[5..], ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]);
    assert!(pods.cell("web", "IP").starts_with("10.64.0."), "{:?}", pods.rows);
    assert_eq!(pods.rows[0][6..], ["node-0", "<none>", "<none>"]);
    let nodes = Table::parse(&cluster.ok("get nodes -o wide").await);
    let more = ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"];
    assert_eq!(nodes.header[5..], more);
    assert_eq!(nodes.cell("node-0", "STATUS"), "Ready");
    assert_eq!(nodes.cell("node-0", "VERSION"), "v1.36.4");
}

#[tokio::test]
async fn get_yaml_and_json_are_the_object() {
    let cluster = Cluster::start().await;
    cluster.ok("create configmap colours --from-literal=sea=blue").await;
    let yaml = cluster.ok("get configmap colours -o yaml").await;
    assert_says(
        &yaml,
        &["apiVersion: v1\ndata:\n  sea: blue\nkind: ConfigMap\n", "  name: colours\n", "  namespace: default\n"],
    );
    let object: Value = serde_json::from_str(&cluster.ok("get configmap colours -o json").await).unwrap();
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["data"]["sea"], "blue");
    assert!(object["metadata"].get("managedFields").is_none());
    let object = cluster.ok("get configmap colours -o json --show-managed-fields").await;
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["metadata"]["managedFields"][0]["manager"], "kubectl-create");
    let list: Value = serde_json::from_str(&cluster.ok("get configmaps -o json").await).unwrap();
    assert_eq!(list["kind"], "List");
}

#[tokio::test]
async fn get_picks_out_fields() {
    let cluster = Cluster::with_web().await;
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.status.readyReplicas}").await, "2");
    let images = cluster
        .ok("get pods -o jsonpath='{range .items[*]}{.spec.containers[0].image} {.status.phase}{\"\\n\"}{end}'")
        .await;
    assert_eq!(images, "nginx:1.25 Running\n".repeat(2));
    let columns = cluster.ok("get deployment -o custom-columns=NAME:.metadata.name,STRATEGY:.spec.strategy.type").await;
    assert_eq!(columns, "NAME   STRATEGY\nweb    RollingUpdate\n");
    assert_eq!(cluster.ok("get deployment -o name").await, "deployment.apps/web\n");
    assert_eq!(cluster.ok("get deployment web -o go-template={{.spec.replicas}}").await, "2");
}

#[tokio::test]
async fn get_selects_by_label_and_field_and_sorts() {
    let cluster = Cluster::start().await;
    for name in ["b", "a", "c"] {
        cluster.ok(&format!("create configmap {name}")).await;
    }
    cluster.ok("label configmap a c tier=front").await;
    cluster.ok("label configmap b tier=back").await;
    assert_eq!(cluster.ok("get cm -l tier=front -o name").await, "configmap/a\nconfigmap/c\n");
    assert_eq!(cluster.ok("get cm -l 'tier in (back)' -o name").await, "configmap/b\n");
    assert_eq!(cluster.ok("get cm -l '!tier' -o name").await, "configmap/kube-root-ca.crt\n");
    assert_eq!(cluster.ok("get cm --field-selector metadata.name=b -o name").await, "configmap/b\n");
    let labels = cluster.ok("get cm -l tier -L tier --no-headers").await;
    assert_says(&squeezed(&labels), &["a 0 ", " front\n", "b 0 ", " back\n"]);
    let sorted = cluster.ok("get cm -l tier --sort-by=.metadata.labels.tier -o name").await;
    assert!(sorted.starts_with("configmap/b\n"), "{sorted}");
    let shown = cluster.ok("get cm b --show-labels").await;
    assert_says(&shown, &["LABELS", "tier=back"]);
    let chunked = cluster.ok("get cm --chunk-size=1 -o name").await;
    assert_eq!(chunked, "configmap/a\nconfigmap/b\nconfigmap/c\nconfigmap/kube-root-ca.crt\n");
}

#[tokio::test]
async fn get_all_namespaces_says_which() {
    let cluster = Cluster::start().await;
    cluster.ok("create namespace harbour").await;
    cluster.ok("create configmap colours -n harbour").await;
    let all = Table::parse(&cluster.ok("get configmaps -A").await);
    assert_eq!(all.header, ["NAMESPACE", "NAME", "DATA", "AGE"]);
    assert!(all.rows.iter().any(|row| row[..2] == ["harbour", "colours"]), "{:?}", all.rows);
    assert!(all.rows.iter().any(|row| row[0] == "kube-system"), "{:?}", all.rows);
    let namespaces = Table::parse(&cluster.ok("get ns").await);
    assert_eq!(namespaces.names(), ["default", "harbour", "kube-node-lease", "kube-public", "kube-system"]);
    assert_eq!(namespaces.cell("harbour", "STATUS"), "Active");
}

#[tokio::test]
async fn get_of_nothing_says_so() {
    let cluster = Cluster::start().await;
    let answer = cluster.run("get pods").await;
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), "No resources found in default namespace.\n"));
    let said = cluster.fails("get pod ghost").await;
    assert_eq!(said, "Error from server (NotFound): pods \"ghost\" not found\n");
    assert_says(&cluster.fails("get ghosts").await, &["error: the server doesn't have a resource type \"ghosts\""]);
    assert_eq!(cluster.ok("get pod ghost --ignore-not-found").await, "");
}

#[tokio::test]
async fn describe_deployment_tells_its_state_and_history() {
    let cluster = Cluster::with_web().await;
    let said = squeezed(&cluster.ok("describe deployment web").await);
    assert_says(
        &said,
        &[
            "Name: web\nNamespace: default\n",
            "Annotations: deployment.kubernetes.io/revision: 1\n",
            "Selector: app=web\n",
            "Replicas: 2 desired | 2 updated | 2 total | 2 available | 0 unavailable\n",
            "StrategyType: RollingUpdate\nMinReadySeconds: 0\nRollingUpdateStrategy: 25% max unavailable, 25% max surge\n",
            "Image: nginx:1.25\n",
            "Available True MinimumReplicasAvailable\n",
            "Progressing True NewReplicaSetAvailable\n",
            "OldReplicaSets: <none>\nNewReplicaSet: web-",
            "(2/2 replicas created)\n",
            "Normal ScalingReplicaSet",
            "deployment-controller Scaled up replica set web-",
            "from 0 to 2\n",
        ],
    );
}

#[tokio::test]
async fn describe_pod_tells_where_it_runs_and_what_happened() {
    let cluster = Cluster::with_web().await;
    let said = squeezed(&cluster.ok("describe pods -l app=web").await);
    assert_says(
        &said,
        &[
            "Service Account: default\nNode: node-0/10.0.0.1\n",
            "Labels: app=web\npod-template-hash=",
            "Status: Running\nIP: 10.64.0.",
            "Controlled By: ReplicaSet/web-",
            "Containers:\nnginx:\nContainer ID: ",
            "Image: nginx:1.25\nImage ID: ",
            "State: Running\nStarted: ",
            "Ready: True\nRestart Count: 0\n",
            "Conditions:\nType Status\nPodReadyToStartContainers True\nInitialized True\nReady True\nContainersReady True\nPodScheduled True\n",
            "/var/run/secrets/kubernetes.io/serviceaccount from kube-api-access-",
            "QoS Class: BestEffort\n",
            "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s\n",
            "default-scheduler Successfully assigned default/web-",
            " to node-0\n",
            "Normal Started",
        ],
    );
}

#[tokio::test]
async fn describe_node_tells_its_health_and_load() {
    let cluster = Cluster::start().await;
    cluster.ok(r#"run heavy --image=nginx --overrides={"spec":{"containers":[{"name":"heavy","image":"nginx","resources":{"requests":{"cpu":"8"}}}]}}"#).await;
    cluster.ok("wait --for=condition=Ready pod/heavy --timeout=60s").await;
    let said = squeezed(&cluster.ok("describe node node-0").await);
    assert_says(
        &said,
        &[
            "Name: node-0\nRoles: <none>\n",
            "kubernetes.io/hostname=node-0\n",
            "Taints: <none>\nUnschedulable: false\n",
            "HolderIdentity: node-0\n",
            "MemoryPressure False",
            "Ready True",
            "KubeletReady",
            "InternalIP: 10.0.0.1\nHostname: node-0\n",
            "Capacity:\ncpu: 32\n",
            "Kubelet Version: v1.36.4\n",
            "Non-terminated Pods: (1 in total)\n",
            "default heavy 8 (25%) 0 (0%)",
            "cpu 8 (25%) 0 (0%)\n",
        ],
    );
}

#[tokio::test]
async fn describe_service_tells_its_endpoints() {
    let cluster = Cluster::with_web().await;
    cluster.ok("expose deployment web --port=80 --target-port=8080").await;
    cluster
        .until("get endpointslices -o jsonpath={.items[*].endpoints[*].addresses}", |found| {
            found.matches("10.64.").count() == 2
        })
        .await;
    let said = squeezed(&cluster.ok("describe service web").await);
    assert_says(
        &said,
        &[
            "Name: web\nNamespace: default\nLabels: app=web\n",
            "Selector: app=web\nType: ClusterIP\nIP Family Policy: SingleStack\nIP Families: IPv4\nIP: 10.",
            "Port: <unset> 80/TCP\nTargetPort: 8080/TCP\nEndpoints: 10.64.0.",
            ":8080,10.64.0.",
            "Session Affinity: None\nInternal Traffic Policy: Cluster\nEvents: <none>\n",
        ],
    );
}
