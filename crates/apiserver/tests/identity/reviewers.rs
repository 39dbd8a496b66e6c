//! The token reviewer outside: remembered, asked once, slow, broken, lying.

use crate::outside::{Asked, Outside, Reply, World, accounts};
use pintle_apiserver::authn::config::TokenWebhook;
use pintle_apiserver::outbound::{Endpoint, Trust};
use serde_json::{Value, json};
use std::time::Duration;

const URL: &str = "https://authn.example/review";
const MINUTE: Duration = Duration::from_secs(60);

fn jane(asked: &Asked) -> Reply {
    let mut answer = asked.body.clone();
    answer["status"] = json!({"authenticated": true, "user": {"username": "jane", "groups": ["devs"]}});
    Reply::Json(answer)
}

fn nobody(asked: &Asked) -> Reply {
    let mut answer = asked.body.clone();
    answer["status"] = json!({"authenticated": false});
    Reply::Json(answer)
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_for_as_long_as_configured_and_a_failure_not_at_all() {
    let outside = Outside::new();
    let program = outside.run("authn.example", |asked| match asked.body["spec"]["token"].as_str() {
        Some("jane") => jane(asked),
        Some("nobody") => nobody(asked),
        _ => Reply::Code(401, "{}"),
    });
    let world = World::open(&outside, outside.reviewer(URL)).await;
    for (token, known, asked_again) in [("jane", true, false), ("nobody", false, false), ("odd", false, true)] {
        for (index, wait) in [Duration::ZERO, MINUTE, Duration::from_secs(61)].into_iter().enumerate() {
            tokio::time::sleep(wait).await;
            assert_eq!(world.who(token).await.is_ok(), known, "{token}");
            let times = program.asked().len();
            let expected = usize::from(index == 0 || index == 2 || asked_again);
            assert_eq!(times, expected, "{token}, look {index}");
        }
    }
    // Two questions were answered twice each, and one was refused three times.
    let metrics = world.admin("GET", "/metrics", Value::Null).await.text;
    for line in [
        "apiserver_delegated_authn_request_total{code=\"200\"} 4",
        "apiserver_delegated_authn_request_total{code=\"401\"} 3",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_requests_with_one_token_ask_once_and_a_slow_reviewer_delays_only_those_with_such_tokens() {
    let outside = Outside::new();
    let program = outside.run("authn.example", |asked| Reply::Later(MINUTE / 4, Box::new(jane(asked))));
    let world = World::open(&outside, outside.reviewer(URL)).await;
    let began = tokio::time::Instant::now();
    let many = futures::future::join_all((0..100).map(|_| world.who("t")));
    let (all, others) = tokio::join!(many, async {
        let answer = world.admin("GET", "/api/v1/namespaces", Value::Null).await;
        (answer.code, began.elapsed())
    });
    assert!(all.iter().all(|who| who.as_ref().is_ok_and(|user| user["username"] == "jane")));
    assert_eq!(program.asked().len(), 1);
    assert_eq!(others, (200, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_reviewer_that_fails_or_lies_lets_nobody_in() {
    type Behaviour = fn(&Asked) -> Reply;
    let of_another_kind: Behaviour = |asked| {
        let status = json!({"authenticated": true, "allowed": true, "user": {"username": "jane"}});
        let version = asked.body["apiVersion"].clone();
        Reply::Json(json!({"apiVersion": version, "kind": "SubjectAccessReview", "status": status}))
    };
    // How it behaves, how often it is asked, and for how long.
    let table: [(&str, Behaviour, usize, Duration); 10] = [
        ("hangs", |_| Reply::Hangs, 1, Duration::from_secs(30)),
        ("breaks the connection", |_| Reply::Breaks, 1, Duration::ZERO),
        ("answers 500", |_| Reply::Code(500, "{}"), 5, Duration::from_secs(5)),
        ("answers 503", |_| Reply::Code(503, "{}"), 1, Duration::ZERO),
        ("asks to come again", |_| Reply::Headers(503, vec![("retry-after", "1".into())]), 5, Duration::from_secs(5)),
        (
            "redirects to a reviewer that knows everybody",
            |_| Reply::Headers(307, vec![("location", "https://friend.example/".into())]),
            1,
            Duration::ZERO,
        ),
        ("answers with another kind", of_another_kind, 1, Duration::ZERO),
        ("answers with no JSON", |_| Reply::Text("{\"status\":".into()), 1, Duration::ZERO),
        ("answers without end", |_| Reply::Text("x".repeat(17 << 20)), 1, Duration::ZERO),
        ("answers late", |asked| Reply::Later(MINUTE, Box::new(jane(asked))), 1, Duration::from_secs(30)),
    ];
    for (what, behaviour, times, limit) in table {
        let outside = Outside::new();
        let program = outside.run("authn.example", behaviour);
        let friend = outside.run("friend.example", jane);
        let world = World::open(&outside, outside.reviewer(URL)).await;
        let began = tokio::time::Instant::now();
        assert_eq!(world.who("t").await, Err(401), "{what}");
        assert!(began.elapsed() <= limit, "{what}: {:?}", began.elapsed());
        assert_eq!((program.asked().len(), friend.asked().len()), (times, 0), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reviewer_with_a_certificate_of_somebody_else_is_not_believed() {
    let (outside, others) = (Outside::new(), Outside::new());
    let misnamed = outside.run_as("authn.example", "friend.example", jane);
    let world = World::open(&outside, outside.reviewer(URL)).await;
    assert_eq!(world.who("t").await, Err(401));
    let program = outside.run("authn.example", jane);
    let untrusted = World::open(&outside, others.reviewer(URL)).await;
    assert_eq!(untrusted.who("t").await, Err(401));
    assert!(misnamed.asked().is_empty() && program.asked().is_empty());
    assert!(World::open(&outside, outside.reviewer(URL)).await.who("t").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_says_where_the_reviewer_is_and_what_is_shown_to_it() {
    use base64::Engine;
    let outside = Outside::new();
    let program = outside.run("authn.example", jane);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("reviewer.yaml");
    std::fs::write(directory.path().join("ca.crt"), &outside.pki.ca_pem).unwrap();
    std::fs::write(directory.path().join("token"), "a-token\n").unwrap();
    let data = base64::prelude::BASE64_STANDARD.encode(&outside.pki.ca_pem);
    for (cluster, user, shown) in [
        ("certificate-authority: ca.crt".to_owned(), "token: secret", Some("Bearer secret")),
        (format!("certificate-authority-data: {data}"), "tokenFile: token", Some("Bearer a-token")),
        ("insecure-skip-tls-verify: true".to_owned(), "username: u\n    password: p", Some("Basic dTpw")),
        ("certificate-authority: ca.crt".to_owned(), "{}", None),
    ] {
        let user = if user == "{}" { "  user: {}".to_owned() } else { format!("  user:\n    {user}") };
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: x\n  cluster:\n    server: {URL}\n    \
             {cluster}\nusers:\n- name: me\n{user}\ncontexts:\n- name: c\n  context: {{cluster: x, user: me}}\n"
        );
        std::fs::write(&file, &text).unwrap();
        let endpoint = Endpoint::of_kubeconfig(&file).unwrap();
        let webhook = TokenWebhook { endpoint, version: "v1beta1".to_owned(), ttl: MINUTE };
        let mut authentication = accounts();
        authentication.webhook = Some(webhook);
        let world = World::open(&outside, authentication).await;
        assert!(world.who("t").await.is_ok(), "{text}");
        let asked = program.asked().remove(0);
        assert_eq!(asked.headers.get("authorization").map(|value| value.to_str().unwrap()), shown);
        assert_eq!(asked.body["apiVersion"], "authentication.k8s.io/v1beta1");
        for (from, to) in [
            ("current-context: c", "current-context: d"),
            ("https://", "http://"),
            ("    server:", "    tls-server-name: x\n    server:"),
            ("kind: Config", "kind: [Config"),
        ] {
            std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
            assert!(Endpoint::of_kubeconfig(&file).is_err(), "{to}");
        }
    }
    assert!(Trust::of_bundle(b"no certificate", None).is_err());
}
