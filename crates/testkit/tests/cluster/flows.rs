//! Who asks too much waits, and nobody else does.

use futures::future::join_all;
use http::{HeaderMap, Method};
use pintle_apiserver::authn::User;
use pintle_apiserver::call::Call;
use pintle_apiserver::flow::level::Seat;
use pintle_apiserver::notes::Notes;
use pintle_apiserver::request::{Peer, Target};
use pintle_testkit::raw::Answer;
use pintle_testkit::{Cluster, Pace};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

const QUICK: &str = "/api/v1/namespaces/default/configmaps";

fn user(name: &str) -> Peer {
    Peer::Internal(User::new(name, &["team"]).into())
}

async fn ask(cluster: &Cluster, name: &str, path: &str) -> Answer {
    cluster.request_as(user(name), &[], "GET", path, "", "").await
}

/// Seats as requests that take long hold them.
async fn seats(cluster: &Cluster, name: &str, count: usize) -> Vec<Seat> {
    let mut seats = Vec::new();
    for _ in 0..count {
        let target = Target::parse(&Method::GET, &QUICK.parse().unwrap());
        let call = Call::new(target, None, Arc::new(User::new(name, &["team"])), HeaderMap::new());
        seats.push(cluster.server.flow.seat(&call, &Notes::new()).await.unwrap().unwrap());
    }
    seats
}

/// A level with three seats and short queues for the group `team`, which may read ConfigMaps.
async fn tight(cluster: &Cluster, response: Value) {
    cluster
        .create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "tight"},
            "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": response}}}))
        .await
        .unwrap();
    cluster
        .create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "team"},
            "spec": {"matchingPrecedence": 300, "priorityLevelConfiguration": {"name": "tight"}, "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": [{"kind": "Group", "group": {"name": "team"}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]}]}}))
        .await
        .unwrap();
    let may = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}]});
    cluster.create(may).await.unwrap();
}

fn queue(queues: u32, length: u32) -> Value {
    json!({"type": "Queue", "queuing": {"queues": queues, "handSize": 1, "queueLengthLimit": length}})
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_asks_too_much_is_told_when_to_come_again_and_others_are_served() {
    let cluster = Cluster::bare().await;
    tight(&cluster, queue(64, 2)).await;
    let held = seats(&cluster, "greedy", 3).await;
    let greedy = join_all((0..20).map(|_| ask(&cluster, "greedy", QUICK)));
    let others = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Somebody of another level does not notice.
        let began = Instant::now();
        assert_eq!(cluster.request("GET", QUICK, "", "").await.code, 200);
        assert_eq!(began.elapsed(), Duration::ZERO);
        let path = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1";
        let text = cluster.request("GET", path, "", "").await.body.as_str().unwrap().to_owned();
        let listed = text.lines().filter(|line| line.starts_with("tight,\tteam,") && line.contains("greedy"));
        assert_eq!(listed.count(), 5, "three sit, two wait:\n{text}");
        // Somebody of the same level waits for a seat, not for the queue of the greedy one.
        let modest = ask(&cluster, "modest", QUICK);
        let leaves = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(held);
        };
        let (answer, ()) = tokio::join!(modest, leaves);
        assert_eq!(answer.code, 200);
    };
    let (answers, ()) = tokio::join!(greedy, others);
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.code == 429).collect();
    assert_eq!((refused.len(), answers.iter().filter(|answer| answer.code == 200).count()), (18, 2));
    let body = &refused[0].body;
    assert_eq!((&body["reason"], &body["details"]["retryAfterSeconds"]), (&json!("TooManyRequests"), &json!(1)));
    assert_eq!(refused[0].headers["retry-after"], "1");
    assert!(refused[0].message().contains("\"tight\""), "{}", refused[0].message());
    let metrics = cluster.request("GET", "/metrics", "", "").await;
    let text = metrics.body.as_str().unwrap();
    for line in [
        "rejected_requests_total{priority_level=\"tight\",flow_schema=\"team\",reason=\"queue-full\"} 18",
        "nominal_limit_seats{priority_level=\"tight\"} 3",
        "current_executing_requests{priority_level=\"tight\",flow_schema=\"team\"} 0",
        "current_inqueue_requests{priority_level=\"tight\",flow_schema=\"team\"} 0",
    ] {
        assert!(text.contains(&format!("apiserver_flowcontrol_{line}")), "{line}\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_no_place_behind() {
    let cluster = Cluster::bare().await;
    tight(&cluster, queue(1, 50)).await;
    let held = seats(&cluster, "hasty", 3).await;
    for _ in 0..20 {
        let many = join_all((0..30).map(|_| ask(&cluster, "hasty", QUICK)));
        assert!(tokio::time::timeout(Duration::from_millis(50), many).await.is_err());
    }
    let leaves = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(held);
    };
    let (answer, ()) = tokio::join!(ask(&cluster, "modest", QUICK), leaves);
    assert_eq!(answer.code, 200);
    assert_eq!(seats(&cluster, "modest", 3).await.len(), 3, "all seats are free");
    let levels = cluster.request("GET", "/debug/api_priority_and_fairness/dump_priority_levels", "", "").await;
    let levels = levels.body.as_str().unwrap().to_owned();
    let tight = levels.lines().find(|line| line.starts_with("tight,")).unwrap();
    assert!(tight.ends_with(",\t0,\t0,\t600"), "none refused, none too late, all of them gave up: {tight}");
}

#[tokio::test(start_paused = true)]
async fn a_level_that_does_not_queue_refuses_at_once() {
    let cluster = Cluster::bare().await;
    tight(&cluster, json!({"type": "Reject"})).await;
    let held = seats(&cluster, "greedy", 3).await;
    assert_eq!(ask(&cluster, "greedy", QUICK).await.code, 429);
    drop(held);
    assert_eq!(ask(&cluster, "greedy", QUICK).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_a_quarter_of_a_minute() {
    let cluster = Cluster::bare().await;
    tight(&cluster, queue(1, 50)).await;
    let _held = seats(&cluster, "greedy", 3).await;
    let began = Instant::now();
    let answer = ask(&cluster, "modest", QUICK).await;
    assert_eq!((answer.code, began.elapsed().as_secs()), (429, 15));
    assert!(answer.message().contains("waited too long"), "{}", answer.message());
}

#[tokio::test(start_paused = true)]
async fn a_level_that_needs_more_borrows_what_others_do_not_use() {
    let cluster = Cluster::bare().await;
    tight(&cluster, queue(1, 50)).await;
    let patch = json!({"spec": {"limited": {"borrowingLimitPercent": 200}}}).to_string();
    let path = format!("{GROUP}/prioritylevelconfigurations/tight");
    assert_eq!(cluster.request("PATCH", &path, "application/merge-patch+json", patch).await.code, 200);
    let held = seats(&cluster, "greedy", 3).await;
    let waiting = join_all((0..10).map(|_| ask(&cluster, "greedy", QUICK)));
    let later = async {
        tokio::time::sleep(Duration::from_secs(11)).await;
        // Whoever asks next finds that it is time to share anew.
        ask(&cluster, "modest", QUICK).await.code
    };
    let (answers, code) = tokio::join!(waiting, later);
    assert_eq!(code, 200);
    assert!(answers.iter().all(|answer| answer.code == 200), "there were more seats before anybody had to give up");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_its_request_was_classified() {
    let cluster = Cluster::bare().await;
    tight(&cluster, queue(64, 2)).await;
    let uid = async |path: &str| {
        cluster.request("GET", path, "", "").await.body["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let answer = ask(&cluster, "jane", QUICK).await;
    assert_eq!(answer.headers["x-kubernetes-pf-flowschema-uid"], *uid(&format!("{GROUP}/flowschemas/team")).await);
    let level = uid(&format!("{GROUP}/prioritylevelconfigurations/tight")).await;
    assert_eq!(answer.headers["x-kubernetes-pf-prioritylevel-uid"], *level);
}

#[tokio::test(start_paused = true)]
async fn the_objects_that_flow_control_needs_come_back_and_say_what_is_missing() {
    let cluster = Cluster::builder().pace(Pace::default()).start().await;
    let get = async |name: &str| cluster.request("GET", &format!("{GROUP}/{name}"), "", "").await;
    for name in ["flowschemas/catch-all", "prioritylevelconfigurations/catch-all", "flowschemas/service-accounts"] {
        let before = get(name).await.body["metadata"]["uid"].clone();
        assert_eq!(cluster.request("DELETE", &format!("{GROUP}/{name}"), "", "").await.code, 200);
        cluster.settle().await;
        let after = get(name).await;
        assert!(after.code == 200 && after.body["metadata"]["uid"] != before, "{name}");
    }
    let dangling = async || get("flowschemas/team").await.body["status"]["conditions"][0].clone();
    tight(&cluster, queue(64, 2)).await;
    cluster.settle().await;
    assert_eq!((&dangling().await["type"], &dangling().await["status"]), (&json!("Dangling"), &json!("False")));
    cluster.request("DELETE", &format!("{GROUP}/prioritylevelconfigurations/tight"), "", "").await;
    cluster.settle().await;
    assert_eq!((&dangling().await["status"], &dangling().await["reason"]), (&json!("True"), &json!("NotFound")));
    // Its requests find another level.
    assert_eq!(ask(&cluster, "jane", QUICK).await.code, 200);
    let patch = json!({"spec": {"matchingPrecedence": 5}}).to_string();
    let refused = cluster
        .request("PATCH", &format!("{GROUP}/flowschemas/catch-all"), "application/merge-patch+json", patch)
        .await;
    assert_eq!(refused.code, 422);
}
