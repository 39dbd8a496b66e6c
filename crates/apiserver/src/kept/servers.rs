//! Where Pods find the API server: the endpoints of the Service `kubernetes`.
//!
//! Servers over one store each hold a key that expires, and each writes the endpoints of all whose key is there. A server that is
//! alone needs none.

use crate::ApiServer;
use crate::call::Call;
use crate::keys;
use crate::notes::Notes;
use crate::own::Watches;
use crate::registry::{Change, read_error};
use crate::resources::check::same;
use crate::verb::Verb;
use pintle_meta::Status;
use pintle_store::{Op, Range, Splice, Txn};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::Instant;

/// How often a server says that it is there, and how long that is believed.
const BEAT: Duration = Duration::from_secs(10);
const BELIEVED_MILLIS: i64 = 30_000;
/// After an error everything is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Who owns what this loop writes.
const MANAGER: &str = "kube-apiserver";

/// Keeps this server among the endpoints until it stops. `alone`: no other process has the store.
pub async fn run(server: ApiServer, own: SocketAddr, alone: bool) {
    while !server.is_stopping() {
        if let Err(status) = follow(&server, own, alone).await {
            tracing::warn!(%status, "Pods may not find this server yet");
            server.pause(AGAIN).await;
        }
    }
    if !alone {
        let key = key(own).into();
        let txn = Txn { ops: vec![Op::Delete { key }], ..Txn::default() };
        // The key goes by itself if this does not work.
        _ = server.registry.store.commit(txn).await;
    }
}

fn key(own: SocketAddr) -> String {
    keys::named(keys::SERVERS, &own.to_string())
}

/// Writes the endpoints now, and again when somebody changed them or another server came or went.
async fn follow(server: &ApiServer, own: SocketAddr, alone: bool) -> Result<(), Status> {
    let mut watches = Watches::open(server, &[keys::SERVERS, keys::KUBERNETES_ENDPOINTS, keys::KUBERNETES_SLICE])?;
    let mut due = Instant::now();
    loop {
        if !alone && Instant::now() >= due {
            beat(server, own).await?;
            due = Instant::now() + BEAT;
        }
        let all = servers(server, own, alone).await?;
        write(server, ("", "v1", "endpoints"), endpoints(&all)).await?;
        write(server, ("discovery.k8s.io", "v1", "endpointslices"), slice(&all)).await?;
        let wait = async {
            match alone {
                true => std::future::pending().await,
                false => tokio::time::sleep_until(due).await,
            }
        };
        tokio::select! {
            biased;
            () = server.stopping() => return Ok(()),
            events = watches.next() => { events?; }
            () = wait => {}
        }
    }
}

/// This server, and the others whose keys are there.
async fn servers(server: &ApiServer, own: SocketAddr, alone: bool) -> Result<Vec<SocketAddr>, Status> {
    let mut all = BTreeSet::from([own]);
    if !alone {
        let held = server.registry.store.range(Range::prefix(keys::SERVERS)).await.map_err(read_error)?;
        let names = held.entries.iter().filter_map(|entry| keys::rest(&entry.key, keys::SERVERS));
        all.extend(names.filter_map(|name| name.parse::<SocketAddr>().ok()));
    }
    Ok(all.into_iter().collect())
}

async fn beat(server: &ApiServer, own: SocketAddr) -> Result<(), Status> {
    let (store, now) = (&server.registry.store, server.registry.clock.now_millis());
    let value = Splice::plain(own.to_string().into_bytes());
    let put = Op::Put { key: key(own).into(), value, expires_at: Some(now + BELIEVED_MILLIS) };
    let txn = Txn { ops: vec![put], ..Txn::default() };
    store.commit(txn).await.map(|_| ()).map_err(|error| Status::unavailable(error.to_string()))
}

/// Puts an object in place, if it says something else.
async fn write(server: &ApiServer, (group, version, plural): (&str, &str, &str), wanted: Value) -> Result<(), Status> {
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue.get(group, version, plural).ok_or_else(Status::no_such_resource)?;
    let call = Call::own(Verb::Update, resource, "default", "kubernetes", MANAGER);
    let change = |current: Option<&Value>| {
        let Some(current) = current else { return Ok(Change::new(wanted.clone())) };
        let mut object = current.clone();
        for (field, value) in wanted.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata") {
            if !same(&object[field], value) {
                object[field] = value.clone();
            }
        }
        object["metadata"]["labels"] = wanted["metadata"]["labels"].clone();
        Ok(Change::new(object))
    };
    server.registry.update(&call, &Notes::new(), change).await?;
    Ok(())
}

fn endpoints(all: &[SocketAddr]) -> Value {
    let subset = |(port, addresses): (u16, Vec<IpAddr>)| {
        let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
    };
    let subsets: Vec<Value> = by_port(all).into_iter().map(subset).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": subsets})
}

/// A slice has one port for all: that of most servers.
fn slice(all: &[SocketAddr]) -> Value {
    let (port, addresses) = by_port(all).into_iter().max_by_key(|(_, addresses)| addresses.len()).unwrap_or_default();
    let family = if addresses.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    let endpoint = |address: &IpAddr| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family,
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
}

fn by_port(all: &[SocketAddr]) -> BTreeMap<u16, Vec<IpAddr>> {
    let mut groups = BTreeMap::<u16, Vec<IpAddr>>::new();
    all.iter().for_each(|at| groups.entry(at.port()).or_default().push(at.ip()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_find_every_server() {
        let all: Vec<SocketAddr> =
            ["10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:7443"].iter().map(|text| text.parse().unwrap()).collect();
        let endpoints = endpoints(&all);
        assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]));
        assert_eq!(endpoints["subsets"][1]["ports"][0]["port"], 7443);
        let slice = slice(&all);
        assert_eq!(slice["endpoints"][1]["addresses"], json!(["10.0.0.2"]));
        assert_eq!(slice["ports"][0]["port"], 6443);
    }
}
