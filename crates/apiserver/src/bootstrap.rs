//! What a new cluster starts with: namespaces, roles, priority classes, the server's own Service and what it says of itself.

use crate::ApiServer;
use crate::authz::bootstrap as roles;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::codec;
use crate::flow;
use crate::kept::{addresses, api_services};
use crate::notes::Notes;
use crate::pki::FRONT_PROXY_CLIENT;
use crate::registry::Change;
use crate::verb::Verb;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::network::KUBERNETES_ADDRESS;
use pintle_meta::{Status, object};
use pintle_store::{CommitError, Expect, Op, Txn};
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Objects written in one transaction; etcd takes no more than 128 changes at once.
const TOGETHER: usize = 50;

/// Writes what is missing. What is there is left as it is, also what another server that starts at the same time
/// writes first.
pub async fn bootstrap(server: &ApiServer) -> Result<(), Status> {
    let now = server.registry.clock.now_rfc3339();
    let mut objects = first_objects(&now);
    let catalogue = server.registry.catalogue.current().await;
    let served = |row: &&(&str, &str, i64, i64)| catalogue.of_group_version(row.0, row.1).next().is_some();
    let services = api_services::BUILT_IN.iter().filter(served).filter_map(|row| api_services::object(row.0, row.1));
    objects.extend(services);
    objects.extend(flow::defaults::first(&now));
    for objects in objects.chunks(TOGETHER) {
        while !write_missing(server, objects).await? {}
    }
    Ok(())
}

/// Tells everybody how the cluster is reached and which authority to trust: the ConfigMap `cluster-info` of `kube-public`; and
/// other API servers how to authenticate who comes through this one.
pub async fn publish(server: &ApiServer, url: &str, ca_pem: &str, front_proxy_ca_pem: &str) -> Result<(), Status> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "", "cluster": {"server": url, "certificate-authority-data": BASE64_STANDARD.encode(ca_pem)}}],
    });
    write_map(server, "kube-public", "cluster-info", &[("kubeconfig", format!("{config:#}\n"))]).await?;
    // From this, other API servers learn how to recognize a request that this server authenticated and passed on.
    let list = |name: &str| json!([name]).to_string();
    let authentication = [
        ("client-ca-file", ca_pem.to_owned()),
        ("requestheader-allowed-names", list(FRONT_PROXY_CLIENT)),
        ("requestheader-client-ca-file", front_proxy_ca_pem.to_owned()),
        ("requestheader-extra-headers-prefix", list("X-Remote-Extra-")),
        ("requestheader-group-headers", list("X-Remote-Group")),
        ("requestheader-uid-headers", list("X-Remote-Uid")),
        ("requestheader-username-headers", list("X-Remote-User")),
    ];
    write_map(server, "kube-system", "extension-apiserver-authentication", &authentication).await
}

/// Sets keys of a ConfigMap, and leaves what else is in it.
async fn write_map(server: &ApiServer, namespace: &str, name: &str, data: &[(&str, String)]) -> Result<(), Status> {
    let catalogue = server.registry.catalogue.latest();
    let Some(resource) = catalogue.get("", "v1", "configmaps") else { return Err(Status::no_such_resource()) };
    let call = Call::own(Verb::Update, resource, namespace, name, "apiserver");
    let change = |old: Option<&Value>| {
        let metadata = json!({"name": name, "namespace": namespace});
        let fresh = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let mut map = old.cloned().unwrap_or_else(fresh);
        data.iter().for_each(|(key, value)| object::set(&mut map, &["data", key], value.as_str()));
        Ok(Change::new(map))
    };
    server.registry.update(&call, &Notes::new(), change).await?;
    Ok(())
}

/// False if somebody else wrote one of them in between.
pub(crate) async fn write_missing(server: &ApiServer, objects: &[Value]) -> Result<bool, Status> {
    let mut txn = Txn::default();
    for object in objects {
        add(server, &mut txn, object.clone()).await?;
    }
    if txn.ops.is_empty() {
        return Ok(true);
    }
    match server.registry.store.commit(txn).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict { .. }) => Ok(false),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

fn first_objects(now: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = NAMESPACES
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    objects.push(json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": KUBERNETES_ADDRESS, "clusterIPs": [KUBERNETES_ADDRESS],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]}}));
    objects.extend(roles::cluster_roles());
    objects.extend(roles::cluster_role_bindings());
    objects.extend(roles::cluster_info_for_all());
    objects.extend(roles::authentication_readers());
    objects.push(addresses::range(now));
    for (name, value, about) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        objects.push(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": about, "preemptionPolicy": "PreemptLowerPriority"}));
    }
    objects
}

async fn add(server: &ApiServer, txn: &mut Txn, mut value: Value) -> Result<(), Status> {
    let registry = &server.registry;
    let catalogue = registry.catalogue.latest();
    let api_version = object::text(&value, &["apiVersion"]).to_owned();
    let (group, version) = pintle_meta::names::split_api_version(&api_version);
    let kind = object::kind(&value).to_owned();
    let found: Option<&Arc<Resource>> = catalogue.of_group_version(group, version).find(|r| r.kind == kind);
    let Some(resource) = found else { return Err(Status::internal(format!("{kind} is not served"))) };
    let key: Arc<str> = resource.key(object::namespace(&value), object::name(&value)).into();
    if registry.store.get(&key).await.map_err(crate::registry::read_error)?.is_some() {
        return Ok(());
    }
    resource.default(&mut value)?;
    registry.dress_new(resource, &mut value);
    txn.checks.push((key.clone(), Expect::Absent));
    txn.ops.push(Op::Put { key: key.clone(), value: codec::encode(&value), expires_at: None });
    for claim in resource.strategy.claims(&value) {
        registry.claim(txn, &claim, &key);
        // Written over what somebody may have left there: a cluster must start.
        resource.strategy.shown_claim(&value, &claim).and_then(|shown| registry.show(txn, shown));
    }
    Ok(())
}
