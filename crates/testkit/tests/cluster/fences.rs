//! A leader that has lost its Lease cannot write any more, however late its requests arrive.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_testkit::Cluster;
use pintle_testkit::raw::Answer;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/at";
const MERGE: &str = "application/merge-patch+json";

async fn with_lease(holder: &str, term: i32) -> Cluster {
    let cluster = Cluster::bare().await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "at", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseTransitions": term, "leaseDurationSeconds": 15}});
    cluster.create(lease).await.unwrap();
    cluster
}

async fn write_as(cluster: &Cluster, user: User, fence: &str, name: &str) -> Answer {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let headers = [("pintle-fence", fence)];
    cluster.request_as(Peer::Internal(user.into()), &headers, "POST", MAPS, "application/json", map).await
}

async fn write(cluster: &Cluster, fence: &str, name: &str) -> Answer {
    write_as(cluster, User::internal("admin"), fence, name).await
}

async fn change_lease(cluster: &Cluster, spec: serde_json::Value) {
    let patch = json!({"spec": spec}).to_string();
    assert_eq!(cluster.request("PATCH", LEASE, MERGE, patch).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_holder_writes_and_its_predecessor_is_told_who_leads() {
    let cluster = with_lease("one", 3).await;
    for (fence, name) in [("kube-system/at:3", "a"), ("kube-system/at:3@one", "b")] {
        assert_eq!(write(&cluster, fence, name).await.code, 201, "{fence}");
    }
    // A renewal changes the Lease, not the leader.
    change_lease(&cluster, json!({"renewTime": "2027-01-15T08:00:00.000000Z"})).await;
    assert_eq!(write(&cluster, "kube-system/at:3@one", "c").await.code, 201);

    change_lease(&cluster, json!({"holderIdentity": "two", "leaseTransitions": 4})).await;
    let late = write(&cluster, "kube-system/at:3", "d").await;
    assert_eq!((late.code, &late.body["reason"]), (409, &json!("Conflict")));
    let message = late.message();
    assert!(
        message.contains("kube-system/at") && message.contains("term 4") && message.contains("\"two\" holds it"),
        "{message}"
    );
    assert_eq!(cluster.request("GET", &format!("{MAPS}/d"), "", "").await.code, 404, "nothing was written");

    let other = write(&cluster, "kube-system/at:4@one", "e").await;
    assert_eq!(other.code, 409);
    assert!(other.message().contains("not \"one\" but \"two\" holds it"), "{}", other.message());
    assert_eq!(cluster.request("DELETE", LEASE, "", "").await.code, 200);
    let gone = write(&cluster, "kube-system/at:4@two", "f").await;
    assert_eq!(gone.code, 409);
    assert!(gone.message().contains("the Lease is gone"), "{}", gone.message());
}

#[tokio::test(start_paused = true)]
async fn every_way_of_changing_is_fenced_and_reading_is_not() {
    let cluster = with_lease("two", 4).await;
    assert_eq!(write(&cluster, "kube-system/at:4", "a").await.code, 201);
    let stale = [("pintle-fence", "kube-system/at:3")];
    let admin = || Peer::Internal(User::internal("admin").into());
    let path = format!("{MAPS}/a");
    let whole =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}).to_string();
    for (method, path, media, body) in [
        ("PUT", path.as_str(), "application/json", whole.as_str()),
        ("PATCH", &path, MERGE, r#"{"data":{"x":"y"}}"#),
        ("DELETE", &path, "", ""),
        ("DELETE", MAPS, "", ""),
    ] {
        let answer = cluster.request_as(admin(), &stale, method, path, media, body.to_owned()).await;
        assert_eq!(answer.code, 409, "{method} {path}: {}", answer.message());
    }
    let read = cluster.request_as(admin(), &stale, "GET", &path, "", "").await;
    assert_eq!((read.code, read.body.get("data")), (200, None));
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_and_gives_up_its_lease_under_its_own_fence() {
    let cluster = with_lease("one", 3).await;
    let fence = [("pintle-fence", "kube-system/at:3@one")];
    let admin = || Peer::Internal(User::internal("admin").into());
    for body in [r#"{"spec":{"leaseDurationSeconds":20}}"#, r#"{"spec":{"holderIdentity":""}}"#] {
        let answer = cluster.request_as(admin(), &fence, "PATCH", LEASE, MERGE, body).await;
        assert_eq!(answer.code, 200, "{}", answer.message());
    }
    let after = write(&cluster, "kube-system/at:3@one", "a").await;
    assert!(after.code == 409 && after.message().contains("nobody holds it"), "{}", after.message());
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_cannot_be_read_is_named_and_tells_strangers_nothing() {
    let cluster = with_lease("one", 3).await;
    for bad in ["", "at:3", "kube-system/at", "kube-system/at:three"] {
        let answer = write(&cluster, bad, "a").await;
        assert_eq!(answer.code, 400, "{bad}");
        assert!(answer.message().contains("Pintle-Fence"), "{}", answer.message());
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.create(binding).await.unwrap();
    for lease in ["at", "none"] {
        let answer = write_as(&cluster, User::new("jane", &[]), &format!("kube-system/{lease}:1"), "a").await;
        assert_eq!(answer.code, 403);
        assert!(!answer.message().contains("\"one\""), "{}", answer.message());
    }
}

/// Writers race with the change of leaders on several threads. Whatever the order, it must hold for each write.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_committed_for_a_term_after_the_next_has_begun() {
    const TERMS: i32 = 200;
    const WRITERS: usize = 3;
    let cluster = Arc::new(with_lease("one", 0).await);
    let current = Arc::new(AtomicI32::new(0));
    let revision = |answer: &Answer| -> u64 {
        answer.body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap()
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (cluster, current) = (cluster.clone(), current.clone());
            tokio::spawn(async move {
                let mut written = Vec::new();
                for number in 0.. {
                    let term = current.load(Ordering::SeqCst);
                    if term == TERMS {
                        break;
                    }
                    let name = format!("m-{writer}-{number}");
                    let answer = write(&cluster, &format!("kube-system/at:{term}"), &name).await;
                    match answer.code {
                        201 => written.push((term, revision(&answer))),
                        code => assert_eq!(code, 409, "{}", answer.message()),
                    }
                }
                written
            })
        })
        .collect();
    let mut began = vec![0];
    for term in 1..=TERMS {
        let patch = json!({"spec": {"leaseTransitions": term}}).to_string();
        let answer = cluster.request("PATCH", LEASE, MERGE, patch).await;
        began.push(revision(&answer));
        current.store(term, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    for writer in writers {
        for (term, at) in writer.await.unwrap() {
            let next = began[usize::try_from(term).unwrap() + 1];
            assert!(at < next, "a write of term {term} has revision {at}; the next term began at {next}");
        }
    }
}
