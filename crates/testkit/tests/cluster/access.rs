//! Nobody gets in by default; everybody gets exactly what was given to them, at once.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_testkit::Cluster;
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn user(name: &str) -> Peer {
    Peer::Internal(User::new(name, &[]).into())
}

#[tokio::test(start_paused = true)]
async fn strangers_see_health_and_version_and_nothing_else() {
    let cluster = Cluster::bare().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(cluster.request_as(Peer::Unknown, &[], "GET", path, "", "").await.code, 200, "{path}");
    }
    for path in [PODS, "/api", "/apis", "/metrics", "/openapi/v3", "/api/v1/secrets"] {
        let answer = cluster.request_as(Peer::Unknown, &[], "GET", path, "", "").await;
        assert_eq!(answer.code, 403, "{path}");
        assert!(answer.message().contains("system:anonymous"), "{}", answer.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_ours_is_refused() {
    let cluster = Cluster::bare().await;
    for token in ["Bearer nonsense", "Bearer a.b.c", "bearer nonsense"] {
        let answer = cluster.request_as(Peer::Unknown, &[("authorization", token)], "GET", "/version", "", "").await;
        assert_eq!((answer.code, answer.message()), (401, "Unauthorized"), "{token}");
    }
    // What is no bearer token is nothing, as in Kubernetes.
    for other in ["Basic YTpi", "Bearer "] {
        let headers = [("authorization", other)];
        assert_eq!(cluster.request_as(Peer::Unknown, &headers, "GET", "/version", "", "").await.code, 200, "{other}");
        let refused = cluster.request_as(Peer::Unknown, &headers, "GET", PODS, "", "").await;
        assert!(refused.code == 403 && refused.message().contains("system:anonymous"), "{}", refused.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_without_rights_is_told_what_is_missing_and_a_binding_counts_at_once() {
    let cluster = Cluster::bare().await;
    let answer = cluster.request_as(user("jane"), &[], "GET", PODS, "", "").await;
    assert_eq!(answer.code, 403);
    assert_eq!(
        answer.message(),
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.create(binding).await.unwrap();
    assert_eq!(cluster.request_as(user("jane"), &[], "GET", PODS, "", "").await.code, 200);
    assert_eq!(cluster.request_as(user("jane"), &[], "DELETE", &format!("{PODS}/x"), "", "").await.code, 403);
    assert_eq!(
        cluster.request_as(user("jane"), &[], "GET", "/api/v1/namespaces/default/secrets", "", "").await.code,
        403
    );
    assert_eq!(
        cluster.request_as(user("jane"), &[], "GET", "/api/v1/namespaces/kube-system/pods", "", "").await.code,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_account_acts_with_its_token_until_it_is_deleted_or_the_token_expires() {
    let cluster = Cluster::bare().await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let answer = cluster
        .request("POST", path, "application/json", json!({"spec": {"expirationSeconds": 600}}).to_string())
        .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let bearer = format!("Bearer {}", answer.body["status"]["token"].as_str().unwrap());
    let who = |bearer: String| {
        let cluster = &cluster;
        async move {
            let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
            cluster
                .request_as(Peer::Unknown, &[("authorization", &bearer)], "POST", review, "application/json", "{}")
                .await
        }
    };
    let me = who(bearer.clone()).await;
    assert_eq!(me.body["status"]["userInfo"]["username"], "system:serviceaccount:default:robot", "{}", me.body);
    cluster.advance(std::time::Duration::from_secs(601)).await;
    assert_eq!(who(bearer).await.code, 401, "an expired token");

    let answer = cluster.request("POST", path, "application/json", "{}").await;
    let bearer = format!("Bearer {}", answer.body["status"]["token"].as_str().unwrap());
    assert_eq!(who(bearer.clone()).await.code, 201);
    cluster.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot", "", "").await;
    assert_eq!(who(bearer).await.code, 401, "a deleted account");
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_away_more_rights_than_they_have() {
    let cluster = Cluster::bare().await;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "clerk"},
        "rules": [{"apiGroups": [group], "resources": ["roles", "rolebindings"], "verbs": ["create"]}, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "clerk"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "clerk"}, "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}]});
    cluster.create(role).await.unwrap();
    cluster.create(binding).await.unwrap();
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let grant = |resource: &str| {
        json!({"metadata": {"name": format!("may-{resource}")}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]}).to_string()
    };
    let ask = |what: &'static str, body: String| {
        let cluster = &cluster;
        async move {
            cluster.request_as(user("ann"), &[], "POST", &format!("{path}/{what}"), "application/json", body).await
        }
    };
    assert_eq!(ask("roles", grant("pods")).await.code, 201);
    let refused = ask("roles", grant("secrets")).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().ends_with("is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"), "{}", refused.message());
    let bind = |role: &str| {
        json!({"metadata": {"name": format!("as-{role}")}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}]}).to_string()
    };
    assert_eq!(ask("rolebindings", bind("cluster-admin")).await.code, 403);
    assert_eq!(ask("rolebindings", bind("view")).await.code, 403, "an aggregated role counts with all it gathers");
    assert_eq!(ask("rolebindings", bind("clerk")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_may_only_look_runs_no_commands_by_a_get() {
    let cluster = Cluster::bare().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    cluster.create(pod).await.unwrap();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "look", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward", "pods/log"], "verbs": ["get"]}]});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.create(role).await.unwrap();
    cluster.create(binding).await.unwrap();
    for kind in ["exec", "attach", "portforward"] {
        let path = format!("{PODS}/web/{kind}?command=ls&stdout=true");
        let answer = cluster.request_as(user("jane"), &[], "GET", &path, "", "").await;
        assert_eq!(answer.code, 403, "{kind}");
        let missing = format!("User \"jane\" cannot create resource \"pods/{kind}\"");
        assert!(answer.message().contains(&missing), "{}", answer.message());
    }
    // Its log may be read: nobody said of which container, and then it has not run anywhere.
    let answer = cluster.request_as(user("jane"), &[], "GET", &format!("{PODS}/web/log"), "", "").await;
    let choose = "a container name must be specified for pod web, choose one of: [a b]";
    assert_eq!((answer.code, answer.message()), (400, choose));
    let answer = cluster.request_as(user("jane"), &[], "GET", &format!("{PODS}/web/log?container=a"), "", "").await;
    assert_eq!(answer.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_node_elsewhere_reads_what_its_network_needs_and_no_more() {
    let cluster = Cluster::bare().await;
    let node = || Peer::Internal(User::new("system:node:far", &["system:nodes", "system:authenticated"]).into());
    for (path, code) in [
        ("/api/v1/services", 200),
        ("/api/v1/pods", 200),
        ("/api/v1/namespaces", 200),
        ("/apis/discovery.k8s.io/v1/endpointslices", 200),
        ("/apis/networking.k8s.io/v1/networkpolicies", 200),
        ("/apis/networking.k8s.io/v1/ingresses", 403),
        ("/api/v1/secrets", 403),
        ("/api/v1/configmaps", 403),
        ("/api/v1/serviceaccounts", 403),
    ] {
        assert_eq!(cluster.request_as(node(), &[], "GET", path, "", "").await.code, code, "{path}");
    }
}
