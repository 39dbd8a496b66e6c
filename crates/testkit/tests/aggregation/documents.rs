//! What clients are told about what the other server serves.

use crate::other::{GROUP, Mood, SERVICE, World};
use pintle_apiserver::authn::User;
use serde_json::{Value, json};
use std::time::Duration;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The group's entry in discovery.
async fn discovered(world: &World) -> Value {
    let user = User::internal("admin");
    let list = world.get_as(user, &[("accept", AGGREGATED)], "/apis").await.body;
    let mut groups = list["items"].as_array().unwrap().iter();
    groups.find(|group| group["metadata"]["name"] == GROUP).cloned().unwrap_or_default()
}

fn thing() -> Value {
    let kind = json!({"group": GROUP, "version": "v1", "kind": "Thing"});
    json!({"resource": "things", "responseKind": kind, "scope": "Namespaced", "singularResource": "thing",
        "verbs": ["get", "list"], "shortNames": ["th"]})
}

#[tokio::test(start_paused = true)]
async fn discovery_shows_what_the_other_server_serves_and_whether_that_is_current() {
    let world = World::new(Mood::Well).await;
    let current = json!([{"version": "v1", "freshness": "Current", "resources": [thing()]}]);
    assert_eq!(discovered(&world).await["versions"], current);
    let groups = world.get("/apis").await.body["groups"].clone();
    let names: Vec<&str> = groups.as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(names.last(), Some(&GROUP), "in the order of priorities: {names:?}");
    world.other.is(Mood::Down);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(discovered(&world).await["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    world.other.is(Mood::Well);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(discovered(&world).await["versions"], current);
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{SERVICE}");
    assert_eq!(world.cluster.request("DELETE", &path, "", "").await.code, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(discovered(&world).await, Value::Null);
    assert_eq!(world.get("/apis/things.example.com/v1").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_server_of_before_aggregated_discovery_is_shown_too() {
    let world = World::new(Mood::Old).await;
    let kind = json!({"group": "", "version": "", "kind": "Thing"});
    let resource = json!({"resource": "things", "responseKind": kind, "scope": "Namespaced",
        "singularResource": "thing", "verbs": ["get"]});
    let current = json!([{"version": "v1", "freshness": "Current", "resources": [resource]}]);
    assert_eq!(discovered(&world).await["versions"], current);
    let document = world.get("/openapi/v3/apis/things.example.com/v1").await;
    assert!(document.body["components"]["schemas"]["com.example.things.Thing"].is_object(), "made from v2");
}

#[tokio::test(start_paused = true)]
async fn schemas_of_the_other_server_are_there_and_those_of_this_one_stay() {
    let world = World::new(Mood::Well).await;
    let index = world.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, "/openapi/v3/apis/things.example.com/v1?hash=AB12");
    assert_ne!(index["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1?hash=EVIL");
    assert_eq!(world.get(url).await.body["info"]["title"], "things");
    let whole = world.get("/openapi/v2").await.body;
    assert!(whole["definitions"]["com.example.things.Thing"].is_object());
    assert!(whole["paths"]["/apis/things.example.com/v1/things"]["get"].is_object());
    assert_eq!(whole["definitions"]["io.k8s.api.core.v1.Pod"]["type"], "object");
    assert_ne!(whole["paths"]["/apis/apps/v1/deployments"]["get"]["description"], "stolen");
}

#[tokio::test(start_paused = true)]
async fn a_lie_about_itself_harms_no_client() {
    let world = World::new(Mood::Lying).await;
    assert_eq!(discovered(&world).await["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    let index = world.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str();
    assert!(url.is_none_or(|url| url.starts_with("/openapi/v3/apis/things.example.com/v1")), "{url:?}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_not_forgotten_while_the_other_server_may_have_things_in_it() {
    let world = World::new(Mood::Well).await;
    world.cluster.start_loop("namespace");
    world.cluster.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})).await;
    world.other.is(Mood::Down);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(world.cluster.request("DELETE", "/api/v1/namespaces/a", "", "").await.code, 200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let held = world.get("/api/v1/namespaces/a").await;
    let conditions = held.body["status"]["conditions"].as_array().unwrap().clone();
    let failure = conditions.iter().find(|one| one["type"] == "NamespaceDeletionDiscoveryFailure").unwrap();
    assert_eq!((&failure["status"], &failure["reason"]), (&"True".into(), &"DiscoveryFailed".into()), "{failure}");
    world.other.is(Mood::Well);
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(world.get("/api/v1/namespaces/a").await.code, 404);
}
