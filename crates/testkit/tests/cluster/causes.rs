//! Every write is remembered with its cause, for an hour, and only for those who may ask.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_testkit::Cluster;
use pintle_testkit::raw::Answer;
use serde_json::{Value, json};
use std::time::Duration;

const CAUSES: &str = "/debug/pintle/causes";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn admin() -> Peer {
    Peer::Internal(User::internal("kubernetes-admin").into())
}

fn map(name: &str, data: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data}}).to_string()
}

/// Creates a ConfigMap and says why.
async fn create(cluster: &Cluster, name: &str, cause: &str) -> Answer {
    let answer =
        cluster.request_as(admin(), &[("pintle-cause", cause)], "POST", MAPS, JSON, map(name, "secret-1")).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    answer
}

async fn get(cluster: &Cluster, query: &str) -> Value {
    let answer = cluster.request("GET", &format!("{CAUSES}?{query}"), "", "").await;
    assert_eq!(answer.code, 200, "{}", answer.message());
    answer.body
}

/// What each entry or step did: agent, verb, effect and name.
fn told(list: &Value) -> Vec<String> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let tell = |entry: &Value| {
        [text(entry, "agent"), text(entry, "verb"), text(entry, "effect"), text(entry, "name")].join(" ")
    };
    list.as_array().into_iter().flatten().map(tell).collect()
}

#[tokio::test(start_paused = true)]
async fn a_chain_leads_from_an_object_back_to_who_began_it() {
    let cluster = Cluster::bare().await;
    let first = create(&cluster, "first", "").await;
    let (uid, revision) = (&first.body["metadata"]["uid"], &first.body["metadata"]["resourceVersion"]);
    let cause = json!({"loop": "copier", "key": "default/first", "attempt": 1, "because": [
        {"event": "added", "kind": "ConfigMap", "namespace": "default", "name": "first", "uid": uid, "revision": revision}]});
    create(&cluster, "second", &cause.to_string()).await;
    let path = format!("{MAPS}/second");
    let patch = json!({"data": {"a": "secret-2"}, "metadata": {"labels": {"x": "y"}}}).to_string();
    assert_eq!(cluster.request("PATCH", &path, MERGE, patch).await.code, 200);
    assert_eq!(cluster.request("DELETE", &path, "", "").await.code, 200);

    let chain = get(&cluster, "kind=configmap&namespace=default&name=second&chain=true").await;
    let expected = [
        "testkit create created first",
        "testkit create created second",
        "testkit patch updated second",
        "testkit delete deleted second",
    ];
    assert_eq!(told(&chain["steps"]), expected, "{chain:#}");
    let steps = &chain["steps"];
    assert_eq!(steps[1]["cause"], cause);
    assert_eq!(steps[2]["paths"], json!(["data.a", "metadata.labels"]));
    assert_eq!((&steps[0]["depth"], &steps[1]["depth"]), (&json!(1), &json!(0)));
    assert_eq!(steps[0]["user"], "kubernetes-admin");
    assert!(!chain.to_string().contains("secret-"), "values are never kept");

    let newest = get(&cluster, "resource=configmaps&namespace=default&limit=2").await;
    assert_eq!(told(&newest["entries"]), ["testkit delete deleted second", "testkit patch updated second"]);
}

#[tokio::test(start_paused = true)]
async fn one_traced_request_shows_all_that_loops_did_for_it() {
    let cluster = Cluster::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sent = format!("00-{trace}-00f067aa0ba902b7-01");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let answer =
        cluster.request_as(admin(), &[("traceparent", &sent)], "POST", path, JSON, deployment.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    let untraced = create(&cluster, "untraced", "").await;
    assert_eq!(untraced.code, 201);
    cluster.settle().await;
    let list = get(&cluster, &format!("trace={trace}&limit=100")).await;
    let entries = list["entries"].as_array().unwrap();
    let created: Vec<&str> =
        entries.iter().filter(|e| e["effect"] == "created").filter_map(|e| e["kind"].as_str()).collect();
    assert_eq!(created, ["Pod", "ReplicaSet", "Deployment"], "{list:#}");
    assert_eq!(entries.last().unwrap()["traceparent"], sent.as_str());
    assert!(entries.iter().any(|entry| entry["subresource"] == "binding"), "{list:#}");
    assert!(!list.to_string().contains("untraced"));
}

#[tokio::test(start_paused = true)]
async fn finalizers_applies_and_subresources_count_too() {
    let cluster = Cluster::bare().await;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "default", "finalizers": ["x.io/y"]}});
    cluster.apply(held).await;
    let path = format!("{MAPS}/held");
    assert_eq!(cluster.request("DELETE", &path, "", "").await.code, 200);
    let release = json!({"metadata": {"finalizers": null}}).to_string();
    assert_eq!(cluster.request("PATCH", &path, MERGE, release).await.code, 200);
    let chain = get(&cluster, "kind=ConfigMap&name=held&chain=true").await;
    let expected = ["testkit apply created held", "testkit delete marked held", "testkit patch deleted held"];
    assert_eq!(told(&chain["steps"]), expected, "{chain:#}");

    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec});
    assert_eq!(cluster.request("POST", sets, JSON, set.to_string()).await.code, 201);
    let scale = json!({"spec": {"replicas": 3}}).to_string();
    assert_eq!(cluster.request("PATCH", &format!("{sets}/web/scale"), MERGE, scale).await.code, 200);
    let chain = get(&cluster, "group=apps&resource=replicasets&name=web&chain=true").await;
    let last = &chain["steps"][1];
    assert_eq!((&last["subresource"], &last["paths"]), (&json!("scale"), &json!(["spec.replicas"])), "{chain:#}");
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_and_what_never_ends_is_not_remembered() {
    let cluster = Cluster::bare().await;
    create(&cluster, "one", "").await;
    let before = get(&cluster, "limit=1000").await["entries"].as_array().unwrap().len();
    let path = format!("{MAPS}/one");
    let same = json!({"data": {"a": "secret-1"}}).to_string();
    assert_eq!(cluster.request("PATCH", &path, MERGE, same).await.code, 200);
    assert_eq!(cluster.request("PATCH", &format!("{path}?dryRun=All"), MERGE, r#"{"data":{"b":"c"}}"#).await.code, 200);
    assert_eq!(cluster.request("POST", MAPS, JSON, map("one", "again")).await.code, 409);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "default"}});
    cluster.create(lease).await.unwrap();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"}, "reason": "Tested", "message": "m", "type": "Normal"});
    cluster.create(event).await.unwrap();
    assert_eq!(get(&cluster, "limit=1000").await["entries"].as_array().unwrap().len(), before);
}

#[tokio::test(start_paused = true)]
async fn an_hour_later_it_is_forgotten() {
    let cluster = Cluster::bare().await;
    create(&cluster, "old", "").await;
    cluster.advance(Duration::from_secs(3590)).await;
    create(&cluster, "new", "").await;
    assert_eq!(told(&get(&cluster, "resource=configmaps&name=old").await["entries"]).len(), 1);
    cluster.advance(Duration::from_secs(20)).await;
    assert_eq!(told(&get(&cluster, "resource=configmaps&name=old").await["entries"]).len(), 0);
    assert_eq!(told(&get(&cluster, "resource=configmaps&name=new").await["entries"]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_cannot_be_read_is_dropped_and_the_write_goes_on() {
    let cluster = Cluster::bare().await;
    let large = format!(r#"{{"loop":"{}"}}"#, "x".repeat(5000));
    for (name, cause) in [("a", "{"), ("b", "[]"), ("c", large.as_str()), ("d", r#"{"because":7}"#)] {
        create(&cluster, name, cause).await;
        let entries = get(&cluster, &format!("resource=configmaps&name={name}")).await;
        assert_eq!(entries["entries"][0].get("cause"), None, "{entries:#}");
    }
    let metrics = cluster.request("GET", "/metrics", "", "").await.body;
    assert!(metrics.as_str().unwrap().contains("pintle_causes_dropped 4"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_ask_hears_the_same_whatever_exists() {
    let cluster = Cluster::bare().await;
    create(&cluster, "there", "").await;
    let jane = || Peer::Internal(User::new("jane", &[]).into());
    let mut answers = Vec::new();
    for name in ["there", "nowhere"] {
        let path = format!("{CAUSES}?kind=ConfigMap&name={name}&chain=true");
        let answer = cluster.request_as(jane(), &[], "GET", &path, "", "").await;
        answers.push((answer.code, answer.body));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, 403);
    let bad = cluster.request("GET", &format!("{CAUSES}?chain=true"), "", "").await;
    assert_eq!((bad.code, bad.message()), (400, "chain=true needs the object: uid, or name with kind or resource"));
    assert_eq!(cluster.request("GET", &format!("{CAUSES}?limit=x"), "", "").await.code, 400);
    assert_eq!(cluster.request("POST", CAUSES, "", "").await.code, 405);
}
