//! Rights in one namespace, or a right of one kind, open nothing else: each way around was tried on a real server.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn user(name: &str) -> Peer {
    Peer::Internal(User::new(name, &[]).into())
}

/// Gives a user a cluster role everywhere, or in one namespace.
async fn bind(cluster: &Cluster, user: &str, role: &str, namespace: Option<&str>) {
    let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
    let mut binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]});
    if let Some(namespace) = namespace {
        binding["metadata"]["namespace"] = namespace.into();
    }
    cluster.create(binding).await.unwrap();
}

async fn role(cluster: &Cluster, name: &str, rules: Value) {
    let role =
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    cluster.create(role).await.unwrap();
}

async fn namespace(cluster: &Cluster, name: &str) {
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_administrator_of_one_namespace_reaches_nothing_that_is_in_none() {
    let cluster = Cluster::bare().await;
    for name in ["a", "victim"] {
        namespace(&cluster, name).await;
    }
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).await.unwrap();
    bind(&cluster, "jane", "cluster-admin", Some("a")).await;
    bind(&cluster, "joe", "view", Some("a")).await;
    let json = "application/json";
    for (method, path, media) in [
        ("DELETE", "/api/v1/namespaces/a/namespaces/victim", ""),
        ("GET", "/api/v1/namespaces/a/namespaces/victim", ""),
        ("GET", "/api/v1/namespaces/a/namespaces", ""),
        ("GET", "/api/v1/namespaces/a/nodes", ""),
        ("DELETE", "/api/v1/namespaces/a/nodes", ""),
        ("PATCH", "/api/v1/namespaces/a/nodes/n/status", "application/merge-patch+json"),
        ("PUT", "/api/v1/namespaces/a/namespaces/victim/finalize", json),
        ("GET", "/api/v1/namespaces/a/nodes/n/proxy/exec/default/web/main", ""),
        ("POST", "/api/v1/namespaces/a/nodes/n/proxy/exec/default/web/main", ""),
        ("GET", "/api/v1/namespaces/a%2Fnodes/n/proxy/pods", ""),
        ("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/a/nodes", ""),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/clusterroles", ""),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/clusterrolebindings", json),
    ] {
        let answer = cluster.request_as(user("jane"), &[], method, path, media, "{}").await;
        assert_eq!(answer.code, 404, "{method} {path}: {}", answer.body);
    }
    let answer = cluster.request_as(user("joe"), &[], "GET", "/api/v1/namespaces/a/namespaces", "", "").await;
    assert_eq!(answer.code, 404, "view in one namespace does not list all of them");
    // Its own namespace is another matter: access to it is decided in it.
    assert_eq!(cluster.request_as(user("jane"), &[], "GET", "/api/v1/namespaces/a", "", "").await.code, 200);
    assert_eq!(cluster.request_as(user("jane"), &[], "GET", "/api/v1/namespaces/victim", "", "").await.code, 403);
    assert_eq!(cluster.request("GET", "/api/v1/namespaces/victim", "", "").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn an_aggregating_role_needs_every_right_there_is() {
    let cluster = Cluster::bare().await;
    let all = json!([{"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["get", "create", "patch"]}]);
    role(&cluster, "clerk", all).await;
    bind(&cluster, "ann", "clerk", None).await;
    bind(&cluster, "root", "cluster-admin", None).await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let body = json!({"metadata": {"name": "gather"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}})
    .to_string();
    let refused = cluster.request_as(user("ann"), &[], "POST", path, "application/json", body.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    let why = "must have cluster-admin privileges to use the aggregationRule";
    assert!(refused.message().ends_with(why), "{}", refused.message());

    // Who adds it to a role of their own, or changes one that has it, needs the same.
    let plain = json!({"metadata": {"name": "plain"}}).to_string();
    assert_eq!(cluster.request_as(user("ann"), &[], "POST", path, "application/json", plain).await.code, 201);
    let merge = "application/merge-patch+json";
    let add = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}).to_string();
    assert_eq!(cluster.request_as(user("ann"), &[], "PATCH", &format!("{path}/plain"), merge, add).await.code, 403);
    assert_eq!(cluster.request_as(user("root"), &[], "POST", path, "application/json", body).await.code, 201);
    let relabel = json!({"metadata": {"labels": {"x": "y"}}}).to_string();
    let gather = format!("{path}/gather");
    assert_eq!(cluster.request_as(user("ann"), &[], "PATCH", &gather, merge, relabel).await.code, 403);
    // The garbage collector's part is free.
    let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}}).to_string();
    assert_eq!(cluster.request_as(user("ann"), &[], "PATCH", &gather, merge, finalizers).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn impersonation_that_cannot_be_read_never_runs_with_the_impersonators_rights() {
    let cluster = Cluster::bare().await;
    let rules = json!([{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "resourceNames": ["view"], "verbs": ["impersonate"]}]);
    role(&cluster, "actor", rules).await;
    bind(&cluster, "ann", "actor", None).await;
    let as_ann = async |headers: &[(&'static str, &str)]| {
        cluster.request_as(user("ann"), headers, "POST", REVIEW, "application/json", "{}").await
    };
    for headers in [[("impersonate-extra-scopes", "view")], [("impersonate-group", "g")], [("impersonate-uid", "1")]] {
        let answer = as_ann(&headers).await;
        assert_eq!(answer.code, 400, "{headers:?} without a user: {}", answer.body);
    }
    let twice = as_ann(&[("impersonate-user", "jane"), ("impersonate-user", "joe")]).await;
    assert_eq!(twice.code, 400, "{}", twice.body);
    let accented = as_ann(&[("impersonate-user", "jané")]).await;
    assert_eq!(accented.body["status"]["userInfo"]["username"], "jané", "{}", accented.body);

    let extra = as_ann(&[("impersonate-user", "jane"), ("impersonate-extra-scopes", "view")]).await;
    assert_eq!(extra.body["status"]["userInfo"]["extra"], json!({"scopes": ["view"]}), "{}", extra.body);
    assert_eq!(as_ann(&[("impersonate-user", "jane"), ("impersonate-extra-scopes", "edit")]).await.code, 403);
    assert_eq!(as_ann(&[("impersonate-user", "jane"), ("impersonate-uid", "1")]).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_service_account_is_impersonated_by_a_right_of_its_own_and_has_its_groups() {
    let cluster = Cluster::bare().await;
    role(&cluster, "users", json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}])).await;
    role(
        &cluster,
        "accounts",
        json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]),
    )
    .await;
    bind(&cluster, "ann", "users", None).await;
    bind(&cluster, "bob", "accounts", Some("default")).await;
    let robot = |namespace: &str| format!("system:serviceaccount:{namespace}:robot");
    let ask = async |who: &str, as_whom: String| {
        let headers = [("impersonate-user", as_whom.as_str())];
        cluster.request_as(user(who), &headers, "POST", REVIEW, "application/json", "{}").await
    };
    assert_eq!(ask("ann", robot("default")).await.code, 403, "the right on users is not enough");
    assert_eq!(ask("bob", robot("kube-system")).await.code, 403, "nor the right in another namespace");
    let answer = ask("bob", robot("default")).await;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(answer.body["status"]["userInfo"]["groups"], groups, "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn who_may_act_as_another_for_one_thing_may_not_do_the_others_other_things() {
    let cluster = Cluster::bare().await;
    let group = "authentication.k8s.io";
    let rules = json!([
        {"apiGroups": [group], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": [group], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list", "impersonate-on:arbitrary-node:list"]},
    ]);
    role(&cluster, "deputy", rules).await;
    bind(&cluster, "ann", "deputy", None).await;
    bind(&cluster, "jane", "cluster-admin", None).await;
    let as_other = async |other: &str, more: &[(&'static str, &str)], method: &str| {
        let headers: Vec<(&'static str, &str)> = [("impersonate-user", other)].iter().chain(more).copied().collect();
        let path = "/api/v1/namespaces/default/configmaps";
        cluster.request_as(user("ann"), &headers, method, path, "", "").await
    };
    assert_eq!(as_other("jane", &[], "GET").await.code, 200);
    let refused = as_other("jane", &[], "DELETE").await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains("cannot impersonate-on:user-info:deletecollection"), "{}", refused.message());
    assert_eq!(as_other("joe", &[], "GET").await.code, 403, "another user");
    assert_eq!(as_other("jane", &[("impersonate-group", "system:masters")], "GET").await.code, 403);
    // A node is one by its name, and then it has a node's rights alone.
    let node = as_other("system:node:a", &[], "GET").await;
    assert!(node.message().contains("User \"system:node:a\" cannot list"), "{}", node.message());
}

#[tokio::test(start_paused = true)]
async fn a_local_review_tells_nothing_about_other_namespaces() {
    let cluster = Cluster::bare().await;
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let ask =
        async |spec: Value| cluster.request("POST", path, "application/json", json!({"spec": spec}).to_string()).await;
    let about = |namespace: &str| json!({"user": "jane", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}});
    assert_eq!(ask(about("default")).await.code, 201);
    for namespace in ["kube-system", ""] {
        let answer = ask(about(namespace)).await;
        assert_eq!(answer.code, 422, "{}", answer.body);
        assert!(answer.message().contains("spec.resourceAttributes.namespace"), "{}", answer.message());
    }
    let path_review = json!({"user": "jane", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(ask(path_review).await.code, 422);
    assert_eq!(ask(json!({"user": "jane"})).await.code, 422, "about nothing");
    let nobody = json!({"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}});
    assert_eq!(ask(nobody).await.code, 422, "about nobody");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_and_a_binding_are_of_the_pod_that_their_path_names() {
    let cluster = Cluster::bare().await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    for name in ["mine", "other"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.create(pod).await.unwrap();
    }
    let pods = "/api/v1/namespaces/default/pods";
    let post =
        async |path: String, body: Value| cluster.request("POST", &path, "application/json", body.to_string()).await;
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}});
    assert_eq!(post(format!("{pods}/mine/eviction"), body).await.code, 400);
    let body = json!({"metadata": {"name": "mine", "namespace": "kube-system"}});
    assert_eq!(post(format!("{pods}/mine/eviction"), body).await.code, 400);
    let body = json!({"metadata": {"name": "mine"}, "deleteOptions": {"gracePeriodSeconds": "soon"}});
    assert_eq!(post(format!("{pods}/mine/eviction"), body).await.code, 400, "a field of the wrong type");
    let body = json!({"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(format!("{pods}/mine/binding"), body).await.code, 400);
    for name in ["mine", "other"] {
        assert_eq!(cluster.request("GET", &format!("{pods}/{name}"), "", "").await.code, 200);
    }
    assert_eq!(post(format!("{pods}/mine/eviction"), json!({"metadata": {"name": "mine"}})).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_made_only_for_the_account_and_the_pod_that_are_meant() {
    let cluster = Cluster::bare().await;
    for name in ["robot", "other"] {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
        cluster.create(account).await.unwrap();
    }
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"serviceAccountName": "robot", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    cluster.create(pod).await.unwrap();
    let ask = async |account: &str, body: Value| {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        cluster.request("POST", &path, "application/json", body.to_string()).await
    };
    let to_pod = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web"}}});
    assert_eq!(ask("robot", json!({"metadata": {"uid": "wrong"}})).await.code, 409);
    assert_eq!(ask("robot", json!({"metadata": {"name": "other"}})).await.code, 422);
    assert_eq!(ask("other", to_pod.clone()).await.code, 400, "a Pod of another account");
    let stale = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "wrong"}}});
    assert_eq!(ask("robot", stale).await.code, 409);
    assert_eq!(
        ask("robot", json!({"spec": {"expirationSeconds": "600"}})).await.code,
        400,
        "a field of the wrong type"
    );
    assert_eq!(ask("robot", json!({"spec": {"audiences": "a"}})).await.code, 400);

    // Whom it speaks for, and where: the node's name and UID are told.
    let made = ask("robot", to_pod).await;
    let bearer = format!("Bearer {}", made.body["status"]["token"].as_str().unwrap());
    let who = async || {
        let headers = [("authorization", bearer.as_str())];
        cluster.request_as(Peer::Unknown, &headers, "POST", REVIEW, "application/json", "{}").await
    };
    let me = who().await;
    let extra = &me.body["status"]["userInfo"]["extra"];
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n"]), "{}", me.body);
    assert!(extra["authentication.kubernetes.io/node-uid"][0].is_string(), "{}", me.body);

    // An account that is on its way out speaks no more, finalizers or not.
    let account = "/api/v1/namespaces/default/serviceaccounts/robot";
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}}).to_string();
    assert_eq!(cluster.request("PATCH", account, "application/merge-patch+json", hold).await.code, 200);
    cluster.request("DELETE", account, "", "").await;
    assert_eq!(who().await.code, 201, "within a minute, for clocks that differ");
    cluster.advance(std::time::Duration::from_secs(62)).await;
    assert_eq!(who().await.code, 401, "an account under deletion");
}

#[tokio::test(start_paused = true)]
async fn programs_that_verify_tokens_themselves_find_the_key_by_its_id() {
    let cluster = Cluster::bare().await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let made = cluster.request("POST", path, "application/json", "{}").await;
    let token = made.body["status"]["token"].as_str().unwrap().to_owned();
    let header = token.split('.').next().unwrap();
    let header: Value =
        serde_json::from_slice(&base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, header).unwrap())
            .unwrap();
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers = [(headers[0].0, headers[0].1.as_str())];
    let keys = cluster.request_as(Peer::Unknown, &headers, "GET", "/openid/v1/jwks", "", "").await;
    assert_eq!(keys.code, 200, "{}", keys.body);
    let key = &keys.body["keys"][0];
    assert_eq!(
        (&key["kid"], &key["kty"], &key["crv"], &key["alg"]),
        (&header["kid"], &json!("EC"), &json!("P-256"), &json!("ES256"))
    );
    assert_eq!((key["x"].as_str().unwrap().len(), key["y"].as_str().unwrap().len()), (43, 43));
    assert_eq!(cluster.request_as(Peer::Unknown, &[], "GET", "/openid/v1/jwks", "", "").await.code, 403);
}
