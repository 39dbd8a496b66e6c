//! `metrics.k8s.io`: what nodes and Pods use right now, asked of the nodes, for `kubectl top`.
//!
//! The group is there when the server has a way to its nodes. Kubernetes has it from an add-on.

use crate::ApiServer;
use crate::backend::{Backend, Listed, Offered};
use crate::body::Body;
use crate::call::Call;
use crate::codec;
use crate::keys;
use crate::nodes;
use crate::notes::Notes;
use crate::registry::read_error;
use crate::request::Sent;
use crate::response::{self, Shape, Wanted};
use crate::verb::Verb;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use pintle_meta::labels::Selector;
use pintle_meta::{Status, object};
use pintle_store::Range;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// Nodes that are asked at once, and how long each may take.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// Over how long a rate is told; nodes measure so often.
const WINDOW: &str = "10s";

/// Its resources: name, kind, and whether they are in a namespace.
const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

pub struct Usage;

impl Backend for Usage {
    fn group(&self) -> &str {
        GROUP
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn resources(&self) -> Vec<Offered> {
        let offered = |(name, kind, namespaced): (&str, &str, bool)| {
            Offered::Listed(Listed {
                name: name.to_owned(),
                kind: kind.to_owned(),
                namespaced,
                verbs: vec!["get".to_owned(), "list".to_owned()],
                schema: schema(kind),
            })
        };
        RESOURCES.map(offered).into()
    }

    fn answer<'a>(
        &'a self,
        server: &'a ApiServer,
        call: &'a Call,
        _: Sent,
        _: &'a Notes,
    ) -> BoxFuture<'a, Result<Response<Body>, Status>> {
        Box::pin(answer(server, call))
    }
}

/// Amounts of CPU and memory over a window, of a node or of each container of a Pod.
fn schema(kind: &str) -> Value {
    let usage = json!({"type": "object", "additionalProperties": {"type": "string"},
        "description": "The memory usage is the memory working set."});
    let mut schema = json!({"type": "object", "required": ["timestamp", "window"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        "timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}});
    if kind == "NodeMetrics" {
        schema["properties"]["usage"] = usage;
    } else {
        let container = json!({"type": "object", "required": ["name", "usage"],
            "properties": {"name": {"type": "string"}, "usage": usage}});
        schema["properties"]["containers"] = json!({"type": "array", "items": container});
    }
    schema
}

async fn answer(server: &ApiServer, call: &Call) -> Result<Response<Body>, Status> {
    let Call { path, query, .. } = call;
    if !path.subresource.is_empty() {
        return Err(Status::no_such_resource());
    }
    let single = match call.verb {
        Verb::Get => true,
        Verb::List => false,
        _ => return Err(Status::method_not_allowed()),
    };
    let selector = Selector::parse(query.get("labelSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
    let (kind, prefix) = match path.resource.as_str() {
        "nodes" if !path.in_namespace => ("NodeMetrics", keys::NODES.to_owned()),
        "pods" if path.namespace.is_empty() => ("PodMetrics", keys::PODS.to_owned()),
        "pods" => ("PodMetrics", keys::namespace(keys::PODS, &path.namespace)),
        _ => return Err(Status::no_such_resource()),
    };
    let page = server.registry.store.range(Range::prefix(prefix)).await.map_err(read_error)?;
    let mut objects: Vec<Value> = page.entries.iter().map(|entry| codec::decode(&entry.value)).collect();
    objects.retain(|one| selector.matches_labels(object::at(one, &["metadata", "labels"])));
    objects.retain(|one| path.name.is_empty() || object::name(one) == path.name);
    let pods = path.resource == "pods";
    let nodes =
        objects.iter().map(|one| if pods { object::text(one, &["spec", "nodeName"]) } else { object::name(one) });
    let nodes: std::collections::BTreeSet<String> = nodes.filter(|node| !node.is_empty()).map(str::to_owned).collect();
    let usages = ask(server, nodes).await;
    let mut items = objects.iter().filter_map(|one| {
        let usage = usages.get(if pods { object::uid(one) } else { object::name(one) })?;
        metrics(kind, one, usage)
    });
    let wanted = Wanted { shape: Shape::Object, ..call.wanted()? };
    if single {
        let item = items.next().ok_or_else(|| Status::not_found(GROUP, &path.resource, &path.name))?;
        return Ok(response::value(200, wanted, &item));
    }
    let list = json!({"kind": format!("{kind}List"), "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {},
        "items": items.collect::<Vec<Value>>()});
    Ok(response::value(200, wanted, &list))
}

/// What nodes say that they use, by their names, and Pods by their UIDs. A node that does not answer is left out.
async fn ask(server: &ApiServer, names: impl IntoIterator<Item = String>) -> BTreeMap<String, Value> {
    let asked = names.into_iter().map(|name| async move {
        let summary = tokio::time::timeout(PATIENCE, summary(server, &name)).await.ok()?.ok()?;
        Some((name, summary))
    });
    let answers: Vec<(String, Value)> =
        futures::stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(futures::future::ready).collect().await;
    let mut usages = BTreeMap::new();
    for (name, mut summary) in answers {
        for pod in summary["pods"].as_array_mut().into_iter().flatten() {
            let uid = object::text(pod, &["podRef", "uid"]).to_owned();
            usages.insert(uid, pod.take());
        }
        usages.insert(name, summary["node"].take());
    }
    usages
}

async fn summary(server: &ApiServer, node: &str) -> Result<Value, Status> {
    let request = Request::builder()
        .uri("/stats/summary")
        .body(Bytes::new().into())
        .map_err(|e| Status::internal(e.to_string()))?;
    let answer = server.ask_node(node, request).await?;
    let bytes = nodes::read(answer.response.into_body()).await?;
    serde_json::from_slice(&bytes).map_err(|error| Status::internal(error.to_string()))
}

/// Nothing until a rate is known.
fn metrics(kind: &str, of: &Value, usage: &Value) -> Option<Value> {
    let amounts = |usage: &Value| {
        let cpu = usage["cpu"]["usageNanoCores"].as_u64()?;
        let memory = usage["memory"]["workingSetBytes"].as_u64()?;
        Some(json!({"cpu": format!("{cpu}n"), "memory": format!("{}Ki", memory / 1024)}))
    };
    let meta = &of["metadata"];
    let mut metrics = json!({"kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"name": meta["name"], "creationTimestamp": meta["creationTimestamp"]},
        "timestamp": usage["cpu"]["time"], "window": WINDOW});
    for field in ["namespace", "labels"] {
        if !meta[field].is_null() {
            metrics["metadata"][field] = meta[field].clone();
        }
    }
    if kind == "NodeMetrics" {
        metrics["usage"] = amounts(usage)?;
    } else {
        let containers = usage["containers"].as_array()?.iter();
        let containers: Option<Vec<Value>> =
            containers.map(|one| Some(json!({"name": one["name"], "usage": amounts(one)?}))).collect();
        metrics["containers"] = containers.filter(|containers| !containers.is_empty())?.into();
    }
    Some(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_uses_is_told_container_by_container_once_its_rate_is_known() {
        let pod = json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}});
        let mut usage = json!({"cpu": {"time": "2026-01-01T00:00:00Z"}, "containers": [
            {"name": "a", "cpu": {"usageNanoCores": 1500}, "memory": {"workingSetBytes": 4096}}]});
        let metrics_of = |usage: &Value| metrics("PodMetrics", &pod, usage);
        let told = metrics_of(&usage).unwrap();
        assert_eq!(told["containers"], json!([{"name": "a", "usage": {"cpu": "1500n", "memory": "4Ki"}}]));
        assert_eq!(told["metadata"]["labels"]["app"], "web");
        usage["containers"][0]["cpu"] = json!({});
        assert_eq!(metrics_of(&usage), None);
    }
}
