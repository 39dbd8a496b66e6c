//! Authorizers outside: their order, what is remembered, and what happens when they do not answer.

use crate::outside::{Asked, Outside, Reply, World, accounts};
use pintle_apiserver::authn::User;
use pintle_apiserver::authn::static_tokens::StaticTokens;
use pintle_apiserver::authz::config::{self, Authorization, Mode, WebhookConfig};
use pintle_apiserver::request::Peer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/default/pods";

fn says(status: Value) -> impl Fn(&Asked) -> Reply {
    move |asked| {
        let mut answer = asked.body.clone();
        answer["status"] = status.clone();
        Reply::Json(answer)
    }
}

async fn world(outside: &Outside, chain: Vec<Mode>) -> World {
    let static_tokens = Some(StaticTokens::parse("jane,jane,1\njoe,joe,2,ops\n").unwrap());
    let mut authentication = accounts();
    authentication.static_tokens = static_tokens;
    World::new(outside, authentication, Authorization { chain }).await
}

#[tokio::test(start_paused = true)]
async fn the_first_that_decides_decides_and_those_behind_it_are_not_asked() {
    let outside = Outside::new();
    let yes = json!({"allowed": true, "reason": "because"});
    let no = json!({"allowed": false, "denied": true, "reason": "never"});
    let perhaps = json!({"allowed": false, "reason": "who knows"});
    for (first, second, code, reason, asked) in [
        (&yes, &no, 200, "", [1, 0]),
        (&no, &yes, 403, "never", [1, 0]),
        (&perhaps, &yes, 200, "", [1, 1]),
        (&perhaps, &no, 403, "never", [1, 1]),
        (&perhaps, &perhaps, 403, "who knows\nwho knows", [1, 1]),
        (&json!({}), &perhaps, 403, "who knows", [1, 1]),
    ] {
        let hooks = [outside.run("a.example", says(first.clone())), outside.run("b.example", says(second.clone()))];
        let chain =
            ["https://a.example", "https://b.example"].map(|url| Mode::Webhook(Box::new(outside.authorizer(url))));
        let world = world(&outside, chain.into()).await;
        let answer = world.get(PODS, "jane").await;
        assert_eq!(answer.code, code, "{first} {second}: {}", answer.text);
        assert!(answer.message().ends_with(reason) || reason.is_empty(), "{}", answer.message());
        assert_eq!(hooks.map(|hook| hook.asked().len()), asked, "{first} {second}");
    }
    let both = json!({"allowed": true, "denied": true, "reason": "both"});
    outside.run("a.example", says(both));
    let world = world(&outside, vec![Mode::Webhook(Box::new(outside.authorizer("https://a.example")))]).await;
    let answer = world.get(PODS, "jane").await;
    assert_eq!(answer.code, 500);
    assert!(answer.text.contains("webhook subject access review returned both allow and deny response"));
    assert_eq!(world.admin("GET", PODS, Value::Null).await.code, 200, "administrators need nobody's leave");
}

#[tokio::test(start_paused = true)]
async fn an_authorizer_that_fails_opens_nothing_and_closes_only_what_its_policy_says() {
    type Behaviour = fn(&Asked) -> Reply;
    let failures: [(&str, Behaviour, &str); 6] = [
        ("hangs", |_| Reply::Hangs, "context deadline exceeded"),
        ("breaks", |_| Reply::Breaks, "EOF"),
        ("answers 500", |_| Reply::Code(500, "{}"), "an error on the server (\"unknown\")"),
        ("answers 404", |_| Reply::Code(404, "{}"), "the server could not find the requested resource"),
        (
            "redirects",
            |_| Reply::Headers(308, vec![("location", "https://friend.example/".into())]),
            "the server responded with the status code 308",
        ),
        (
            "answers with a token's review",
            |_| {
                Reply::Text(
                    r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"allowed":true}}"#
                        .into(),
                )
            },
            "Kind=TokenReview",
        ),
    ];
    for (what, behaviour, why) in failures {
        let outside = Outside::new();
        outside.run("a.example", behaviour);
        let friend = outside.run("friend.example", says(json!({"allowed": true})));
        for denies in [false, true] {
            let hook = WebhookConfig { denies_on_failure: denies, ..outside.authorizer("https://a.example/x") };
            let chain = vec![Mode::Webhook(Box::new(hook)), Mode::Rbac];
            let world = world(&outside, chain).await;
            let refused = world.get(PODS, "jane").await;
            assert_eq!(refused.code, 500, "{what}: {}", refused.text);
            let begin = format!("Internal Server Error: \"{PODS}\": ");
            assert!(refused.text.starts_with(&begin) && refused.text.contains(why), "{what}: {}", refused.text);
            let open = world.get("/version", "jane").await;
            assert_eq!(open.code, if denies { 500 } else { 200 }, "{what}: {}", open.text);
        }
        assert!(friend.asked().is_empty(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_and_a_no_count_for_as_long_as_configured_and_each_question_for_itself() {
    let outside = Outside::new();
    let program = outside.run("a.example", |asked| {
        let allowed = asked.body["spec"]["user"] == "jane";
        says(json!({"allowed": allowed}))(asked)
    });
    let world = world(&outside, vec![Mode::Webhook(Box::new(outside.authorizer("https://a.example")))]).await;
    for (token, code, ttl) in [("jane", 200, 5 * MINUTE), ("joe", 403, MINUTE / 2)] {
        let ask = async |path: &str| {
            let answer = world.get(path, token).await;
            assert_eq!(answer.code, code, "{}", answer.text);
            program.asked().len()
        };
        assert_eq!(ask(PODS).await, 1);
        tokio::time::sleep(ttl - Duration::from_secs(1)).await;
        assert_eq!(ask(PODS).await, 0, "{token}");
        assert_eq!(ask("/api/v1/namespaces/other/pods").await, 1, "{token}");
        assert_eq!(ask(&format!("{PODS}?labelSelector=a%3Db")).await, 1, "a selector makes it another question");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(ask(PODS).await, 1, "{token}");
    }
    let long = format!("{PODS}?fieldSelector=metadata.name%3D{}", "a".repeat(11_000));
    for _ in 0..2 {
        world.get(&long, "jane").await;
        assert_eq!(program.asked().len(), 1, "a question that is too long is not remembered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_authorizer_is_asked_once_by_many_and_delays_nobody_whom_others_allow() {
    let outside = Outside::new();
    let program = outside.run("a.example", |asked| {
        Reply::Later(Duration::from_secs(2), Box::new(says(json!({"allowed": true}))(asked)))
    });
    let chain = vec![Mode::Rbac, Mode::Webhook(Box::new(outside.authorizer("https://a.example")))];
    let world = world(&outside, chain).await;
    let began = tokio::time::Instant::now();
    // Fewer than the seats of their priority level: requests hold these while they are authorized.
    let many = futures::future::join_all((0..20).map(|_| world.get(PODS, "jane")));
    let (all, others) = tokio::join!(many, async {
        (world.get("/version", "joe").await.code, world.admin("GET", PODS, Value::Null).await.code, began.elapsed())
    });
    assert!(all.iter().all(|answer| answer.code == 200));
    assert_eq!(program.asked().len(), 1);
    assert_eq!(others, (200, 200, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_question_about_a_list_says_what_it_selects_in_reviews_too() {
    let outside = Outside::new();
    let program = outside.run("a.example", says(json!({"allowed": true})));
    let world = world(&outside, vec![Mode::Webhook(Box::new(outside.authorizer("https://a.example")))]).await;
    let requirement = |key: &str, operator: &str, values: &[&str]| match values {
        [] => json!({"key": key, "operator": operator}),
        values => json!({"key": key, "operator": operator, "values": values}),
    };
    let labels = [requirement("a", "In", &["b", "c"]), requirement("d", "Exists", &[])];
    let fields = [requirement("spec.nodeName", "In", &["n1"]), requirement("status.phase", "NotIn", &["Failed"])];
    let ask = async |selectors: Value| {
        let mut attributes = json!({"namespace": "default", "verb": "list", "resource": "pods", "version": "v1"});
        for (key, value) in selectors.as_object().unwrap() {
            attributes[key] = value.clone();
        }
        let review = json!({"spec": {"user": "joe", "uid": "2", "groups": ["g"], "extra": {"k": ["v"]},
            "resourceAttributes": attributes}});
        let answer = world.admin("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await;
        let asked = program.asked().pop().map(|asked| asked.body["spec"].clone());
        (answer, asked.unwrap_or_default())
    };
    let sent = |spec: &Value, key: &str| spec["resourceAttributes"][key]["requirements"].clone();
    let (answer, spec) =
        ask(json!({"labelSelector": {"requirements": labels}, "fieldSelector": {"requirements": fields}})).await;
    assert_eq!(answer.body["status"], json!({"allowed": true}), "{}", answer.text);
    assert_eq!((sent(&spec, "labelSelector"), sent(&spec, "fieldSelector")), (json!(labels), json!(fields)));
    assert_eq!((&spec["uid"], &spec["extra"]), (&json!("2"), &json!({"k": ["v"]})));
    let raw = json!({"labelSelector": {"rawSelector": "a in (b, c),d"},
        "fieldSelector": {"rawSelector": "spec.nodeName=n1,status.phase!=Failed"}});
    let (_, spec) = ask(raw).await;
    assert!(spec.is_null(), "the same question, which is remembered: {spec}");
    let odd = json!({"labelSelector": {"requirements": [requirement("a", "Near", &["b"]), labels[1]]},
        "fieldSelector": {"rawSelector": "a"}});
    let (answer, spec) = ask(odd).await;
    let ignored = "spec.resourceAttributes.fieldSelector ignored due to parse error; \
         spec.resourceAttributes.labelSelector partially ignored due to parse error";
    assert_eq!(answer.body["status"]["evaluationError"], ignored);
    assert_eq!((sent(&spec, "labelSelector"), sent(&spec, "fieldSelector")), (json!([labels[1]]), Value::Null));
    for (selectors, why) in [
        (json!({"labelSelector": {}}), "spec.resourceAttributes.labelSelector.requirements: Required value"),
        (
            json!({"fieldSelector": {"rawSelector": "a=b", "requirements": fields}}),
            "may not specified at the same time as requirements",
        ),
        (json!({"labelSelector": {"requirements": [requirement("a", "In", &[])]}}), "values: Required value"),
        (json!({"labelSelector": {"requirements": [requirement("a", "Exists", &["b"])]}}), "values: Forbidden"),
        (json!({"labelSelector": {"requirements": [requirement("-", "Exists", &[])]}}), "key: Invalid value"),
        (json!({"fieldSelector": {"requirements": [requirement("", "In", &["b"])]}}), "key: Required value"),
    ] {
        let (answer, spec) = ask(selectors).await;
        assert_eq!((answer.code, &spec), (422, &Value::Null), "{}", answer.text);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
}

#[tokio::test(start_paused = true)]
async fn rules_that_only_a_webhook_knows_are_said_to_be_missing() {
    let outside = Outside::new();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let question = json!({"spec": {"namespace": "default"}});
    let jane = || Peer::Internal(Arc::new(User::new("jane", &[])));
    let node = || Peer::Internal(Arc::new(User::new("system:node:a", &["system:nodes"])));
    let hook = Mode::Webhook(Box::new(outside.authorizer("https://a.example")));
    let whole = world(&outside, vec![Mode::Node, Mode::Rbac]).await;
    let part = world(&outside, vec![Mode::Node, Mode::Rbac, hook]).await;
    let status = async |world: &World, peer: Peer| {
        let answer = world.send(peer, "POST", path, &[], question.clone()).await;
        (answer.body["status"]["incomplete"].clone(), answer.body["status"]["evaluationError"].clone())
    };
    assert_eq!(status(&whole, jane()).await, (json!(false), Value::Null));
    let nodes = "node authorizer does not support user rule resolution";
    assert_eq!(status(&whole, node()).await, (json!(true), json!(nodes)));
    let hooks = "webhook authorizer does not support user rule resolution";
    assert_eq!(status(&part, jane()).await, (json!(true), json!(hooks)));
    assert_eq!(status(&part, node()).await, (json!(true), json!(format!("[{nodes}, {hooks}]"))));
}

#[tokio::test(start_paused = true)]
async fn a_file_names_several_authorizers_and_their_order() {
    let outside = Outside::new();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let ca = write("ca.crt", outside.pki.ca_pem.clone());
    let kubeconfig = |name: &str| {
        write(
            name,
            format!(
                "current-context: c\nclusters: [{{name: x, cluster: {{server: 'https://{name}.example', \
                 certificate-authority: '{ca}'}}}}]\ncontexts: [{{name: c, context: {{cluster: x}}}}]\n"
            ),
        )
    };
    let webhook = |name: &str, policy: &str| {
        format!(
            "- type: Webhook\n  name: {name}\n  webhook:\n    timeout: 1s\n    authorizedTTL: 1m\n    unauthorizedTTL: 1m\n    \
             cacheUnauthorizedRequests: false\n    subjectAccessReviewVersion: v1\n    failurePolicy: {policy}\n    \
             connectionInfo: {{type: KubeConfigFile, kubeConfigFile: '{}'}}\n",
            kubeconfig(name)
        )
    };
    let (first, second) = (webhook("first", "NoOpinion"), webhook("second", "Deny"));
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n{first}- {{type: RBAC, name: \
         rbac}}\n{second}"
    );
    let file = write("authorization.yaml", text);
    let chain = config::read(std::path::Path::new(&file)).unwrap().chain;
    let [Mode::Webhook(a), Mode::Rbac, Mode::Webhook(b)] = &chain[..] else { panic!("another order") };
    assert_eq!((a.denies_on_failure, b.denies_on_failure), (false, true));
    assert_eq!((a.authorized_ttl, a.unauthorized_ttl, a.timeout), (MINUTE, Duration::ZERO, MINUTE / 60));
    let hooks =
        [outside.run("first.example", |_| Reply::Hangs), outside.run("second.example", says(json!({"allowed": true})))];
    let world = world(&outside, chain).await;
    assert_eq!(world.get("/version", "jane").await.code, 200);
    assert_eq!(hooks.clone().map(|hook| hook.asked().len()), [1, 0], "RBAC is asked between them");
    assert_eq!(world.get(PODS, "jane").await.code, 200);
    assert_eq!(hooks.map(|hook| hook.asked().len()), [1, 1]);
}
