//! Webhooks as users have them: HTTPS servers with an authority of their own, that answer, lie, hang or break.

use crate::testing::hooks::{Hooks, Loopback};
use crate::testing::{Answer, Cluster};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/a/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/";

impl Cluster {
    /// A webhook for ConfigMaps of the namespace, behind this path of the server.
    fn hook(&self, path: &str) -> Value {
        json!({"name": format!("{}.example.com", path.replace('/', "-")), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1, "clientConfig": {"url": format!("https://127.0.0.1:{}/{path}", self.hooks.port),
                "caBundle": STANDARD.encode(&self.hooks.authority)},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]})
    }

    async fn register(&self, kind: &str, name: &str, hooks: &[Value]) -> Answer {
        let configuration = json!({"metadata": {"name": name}, "webhooks": hooks});
        let answer = self.post(&format!("{CONFIGURATIONS}{kind}webhookconfigurations"), configuration).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer
    }

    async fn forget(&self, kind: &str, name: &str) {
        let answer = self.delete(&format!("{CONFIGURATIONS}{kind}webhookconfigurations/{name}")).await;
        assert_eq!(answer.code, 200);
    }

    async fn create(&self, name: &str) -> Answer {
        self.post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {"a": "b"}})).await
    }
}

fn with(mut hook: Value, field: &str, value: Value) -> Value {
    hook[field] = value;
    hook
}

#[tokio::test]
async fn a_webhook_that_does_not_say_yes_stops_the_write() {
    let cluster = Cluster::start().await;
    let failed = |name: &str, why: &str| {
        format!("Internal error occurred: failed calling webhook \"{name}.example.com\": {why}")
    };
    let to = |path: &str| {
        format!("failed to call webhook: Post \"https://127.0.0.1:{}/{path}?timeout=1s\": ", cluster.hooks.port)
    };
    for (path, code, message) in [
        ("allow", 201, String::new()),
        ("deny", 400, "admission webhook \"deny.example.com\" denied the request: because I say so".to_owned()),
        ("deny-422", 422, "admission webhook \"deny-422.example.com\" denied the request: not like this".to_owned()),
        ("uid", 500, failed("uid", "received invalid webhook response: expected response.uid=")),
        ("no-response", 500, failed("no-response", "received invalid webhook response: webhook response was absent")),
        ("html", 500, failed("html", "failed to call webhook: couldn't get version/kind; json parse error: ")),
        ("empty", 500, failed("empty", "failed to call webhook: 0-length response with status code: 200")),
        ("500", 500, failed("500", "failed to call webhook: an error on the server (\"it broke\")")),
        ("redirect", 500, failed("redirect", "failed to call webhook: the server answered with a redirect (302)")),
        ("hang", 500, failed("hang", &(to("hang") + "context deadline exceeded"))),
        ("close", 500, failed("close", &(to("close") + "EOF"))),
        ("huge", 500, failed("huge", "failed to call webhook: the answer is larger than")),
        (
            "patch",
            500,
            failed("patch", "received invalid webhook response: validating webhook may not return response.patch"),
        ),
    ] {
        cluster.register("validating", "v", &[cluster.hook(path)]).await;
        let answer = cluster.create(path).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.body);
        if code != 201 {
            assert!(answer.message().starts_with(&message), "{path}: {}", answer.message());
        }
        cluster.forget("validating", "v").await;
        // With `failurePolicy: Ignore` a failed call does not stop the write; a refusal does.
        cluster.register("validating", "v", &[with(cluster.hook(path), "failurePolicy", "Ignore".into())]).await;
        let expected = if path.starts_with("deny") { code } else { 201 };
        assert_eq!(cluster.create(&format!("{path}-ignored")).await.code, expected, "{path}");
        cluster.forget("validating", "v").await;
    }
    assert_eq!(cluster.create("without").await.code, 201, "a configuration that is gone counts no more");
}

#[tokio::test]
async fn a_webhook_with_another_certificate_or_at_a_dead_address_is_not_believed() {
    let cluster = Cluster::start().await;
    let other = Hooks::start(&["127.0.0.1"]).await;
    let url = |port: u16| format!("https://127.0.0.1:{port}/allow");
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let config = |url: String, authority: &str| json!({"url": url, "caBundle": STANDARD.encode(authority)});
    for (client, why) in [
        (
            config(url(cluster.hooks.port), &other.authority),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (config(url(dead), &other.authority), "connect: connection refused"),
        (
            config(format!("https://localhost:{}/allow", cluster.hooks.port), &cluster.hooks.authority),
            "x509: certificate is valid for hook.a.svc, not localhost",
        ),
        (json!({"service": {"namespace": "a", "name": "nosuch"}}), "service \"nosuch\" not found"),
    ] {
        cluster.register("validating", "v", &[with(cluster.hook("allow"), "clientConfig", client)]).await;
        let answer = cluster.create("x").await;
        assert_eq!(answer.code, 500);
        assert!(answer.message().ends_with(why), "{}", answer.message());
        cluster.forget("validating", "v").await;
    }
    assert!(cluster.hooks.seen().is_empty());
}

#[tokio::test]
async fn what_webhooks_make_of_an_object_is_what_is_stored() {
    let cluster = Cluster::start().await;
    cluster.register("mutating", "b", &[with(cluster.hook("count"), "reinvocationPolicy", "IfNeeded".into())]).await;
    cluster.register("mutating", "c", &[cluster.hook("patch")]).await;
    cluster.register("mutating", "a", &[cluster.hook("label")]).await;
    let answer = cluster.create("x").await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    // In the order of the names; the one that asks for it is asked again, for another changed the object after it.
    let paths: Vec<String> = cluster.hooks.seen().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["label", "count", "patch", "count"]);
    let stored = cluster.send("GET", &format!("{CONFIG_MAPS}/x"), &Value::Null, "").await.body;
    assert_eq!(stored["data"], json!({"a": "b", "m": "1", "count": "2"}), "{stored}");
    assert_eq!(stored["metadata"]["labels"], json!({"patched": "yes"}));
    let owned = stored["metadata"]["managedFields"].to_string();
    assert!(owned.contains("f:a") && !owned.contains("f:m\""), "what a webhook sets is nobody's: {owned}");
}

#[tokio::test]
async fn a_patch_that_does_no_good_is_refused_and_named() {
    let cluster = Cluster::start().await;
    for (path, code, why) in [
        ("patch-path", 500, "remove operation does not apply: doc is missing path: \"/nope/at/all\": missing value"),
        ("patch-text", 500, "received undecodable patch in webhook response: invalid character 'h' in literal true"),
        (
            "patch-type",
            500,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "patch-namespace",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("patch-label", 422, "metadata.labels: Invalid value: \"bad label!\""),
        ("patch-unknown", 201, ""),
    ] {
        cluster.register("mutating", "m", &[cluster.hook(path)]).await;
        let answer = cluster.create("x").await;
        assert!(answer.code == code && answer.message().contains(why), "{path}: {}", answer.body);
        cluster.forget("mutating", "m").await;
    }
}

#[tokio::test]
async fn every_write_is_shown_and_reads_are_not() {
    let cluster = Cluster::start().await;
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    cluster.register("validating", "v", &[with(cluster.hook("allow"), "rules", rules)]).await;
    let pods = "/api/v1/namespaces/a/pods";
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let name = cluster.post(pods, pod).await.body["metadata"]["name"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("{pods}/{name}{rest}");
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(cluster.post(&at("/binding"), binding).await.code, 201);
    let patch = json!({"status": {"message": "hello"}});
    cluster.send("PATCH", &at("/status"), &patch, "application/merge-patch+json").await;
    cluster.send("POST", &at("/exec?command=ls&container=c"), &Value::Null, "").await;
    cluster.post(&at("/eviction"), json!({"metadata": {"name": name}})).await;
    cluster.send("GET", &at(""), &Value::Null, "").await;
    cluster.create("one").await;
    cluster.delete(CONFIG_MAPS).await;
    let account = "/api/v1/namespaces/a/serviceaccounts/default/token";
    cluster.post(account, json!({"spec": {"expirationSeconds": 600}})).await;
    let seen: Vec<String> = cluster
        .hooks
        .seen()
        .into_iter()
        .map(|(_, review)| {
            let request = &review["request"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (whole, part) = (text(&request["resource"]["resource"]), text(&request["subResource"]));
            let has = |key: &str| if request[key].is_null() { "-" } else { "+" };
            let (operation, kind) = (text(&request["operation"]), text(&request["kind"]["kind"]));
            format!("{operation} {whole}/{part} {kind} {}{}", has("object"), has("oldObject"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "CREATE pods/ Pod +-",
            "CREATE pods/binding Binding +-",
            "UPDATE pods/status Pod ++",
            "CONNECT pods/exec PodExecOptions +-",
            "CREATE pods/eviction Eviction +-",
            "CREATE configmaps/ ConfigMap +-",
            "DELETE configmaps/ ConfigMap -+",
            "CREATE serviceaccounts/token TokenRequest +-",
        ]
    );
}

#[tokio::test]
async fn a_webhook_for_one_version_sees_requests_of_the_others_in_its_own() {
    let cluster = Cluster::start().await;
    let rule = |version: &str| json!([{"apiGroups": ["autoscaling"], "apiVersions": [version], "operations": ["*"], "resources": ["horizontalpodautoscalers"]}]);
    let exact = with(with(cluster.hook("deny"), "rules", rule("v2")), "matchPolicy", "Exact".into());
    cluster.register("validating", "v", &[exact, with(cluster.hook("allow"), "rules", rule("v2"))]).await;
    let autoscaler = json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let path = "/apis/autoscaling/v1/namespaces/a/horizontalpodautoscalers";
    assert_eq!(cluster.post(path, autoscaler).await.code, 201);
    let (_, review) = cluster.hooks.seen().pop().unwrap();
    let request = &review["request"];
    assert_eq!((&request["resource"]["version"], &request["requestResource"]["version"]), (&"v2".into(), &"v1".into()));
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
    assert_eq!(request["object"]["spec"]["metrics"][0]["type"], "Resource");
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_called_at_its_endpoints() {
    let cluster = Cluster::start().await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "https", "port": 443}]}});
    assert_eq!(cluster.post("/api/v1/namespaces/a/services", service).await.code, 201);
    let slice = json!({"metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"name": "https", "port": cluster.hooks.port}],
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices";
    assert_eq!(cluster.post(slices, slice).await.code, 201);
    // A network in which the endpoint is this process.
    cluster.server.registry.outbound.set_network(Arc::new(Loopback));
    let bundle = STANDARD.encode(&cluster.hooks.authority);
    let client = json!({"service": {"namespace": "a", "name": "hook", "path": "/deny"}, "caBundle": bundle});
    cluster.register("validating", "v", &[with(cluster.hook("deny"), "clientConfig", client)]).await;
    assert_eq!(cluster.create("x").await.code, 400);
    assert_eq!(cluster.hooks.seen()[0].0, "deny");
}

#[tokio::test]
async fn a_dry_run_asks_only_webhooks_without_side_effects() {
    let cluster = Cluster::start().await;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let object = || json!({"metadata": {"name": "x"}});
    cluster.register("validating", "v", &[cluster.hook("allow")]).await;
    assert_eq!(cluster.post(&path, object()).await.code, 201);
    let (_, review) = cluster.hooks.seen().pop().unwrap();
    assert_eq!(
        (&review["request"]["dryRun"], &review["request"]["options"]["dryRun"]),
        (&true.into(), &json!(["All"]))
    );
}

#[tokio::test]
async fn configurations_of_webhooks_can_always_be_changed() {
    let cluster = Cluster::start().await;
    let every = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let hook = with(with(cluster.hook("deny"), "rules", every), "namespaceSelector", json!({}));
    cluster.register("validating", "v", std::slice::from_ref(&hook)).await;
    cluster.register("mutating", "m", &[hook]).await;
    assert_eq!(cluster.create("x").await.code, 400);
    cluster.forget("mutating", "m").await;
    cluster.forget("validating", "v").await;
    assert_eq!(cluster.create("x").await.code, 201);
}

#[tokio::test]
async fn a_webhook_that_guards_its_own_service_is_warned_of() {
    let cluster = Cluster::start().await;
    let every = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let client = json!({"service": {"namespace": "a", "name": "hook"}});
    let hook = with(with(cluster.hook("x"), "rules", every), "clientConfig", client);
    let answer = cluster.register("validating", "v", std::slice::from_ref(&hook)).await;
    assert!(answer.warnings.iter().any(|warning| warning.contains("its own service")), "{:?}", answer.warnings);
    let elsewhere = with(hook, "namespaceSelector", json!({"matchLabels": {"kubernetes.io/metadata.name": "b"}}));
    assert!(cluster.register("validating", "w", &[elsewhere]).await.warnings.is_empty());
}

#[tokio::test]
async fn warnings_of_webhooks_reach_the_client() {
    let cluster = Cluster::start().await;
    cluster.register("validating", "v", &[cluster.hook("warn")]).await;
    assert_eq!(cluster.create("x").await.warnings, ["299 - \"first warning\"", "299 - \"second warning\""]);
}
