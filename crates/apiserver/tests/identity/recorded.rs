//! What Kubernetes v1.36.4 sent to an authentication and an authorization webhook, and answered, request by request.

use crate::outside::{Asked, Outside, Reply, World};
use pintle_apiserver::authz::config::{Authorization, Mode};
use pintle_apiserver::request::Peer;
use serde_json::{Value, json};

/// One per line: the request and its token, what the webhooks were asked, the answer.
const RECORDED: &str = include_str!("recorded.json");

fn review(asked: &Asked) -> Reply {
    let token = asked.body["spec"]["token"].as_str().unwrap_or_default();
    let status = match token {
        "broken" => return Reply::Code(500, "{}"),
        "unknown" => json!({"authenticated": false, "error": "no such token"}),
        "bad" => json!({"authenticated": false}),
        _ => {
            let mut status = json!({"authenticated": true, "user": {"username": "jane", "uid": "42",
                "groups": ["devs", "ops"], "extra": {"example.com/scope": ["a", "b"]}}});
            if token == "good-aud" {
                status["audiences"] = json!(["other"]);
            }
            status
        }
    };
    let mut answer = asked.body.clone();
    answer["status"] = status;
    Reply::Json(answer)
}

fn access(asked: &Asked) -> Reply {
    let spec = &asked.body["spec"];
    let resource = spec["resourceAttributes"]["resource"].as_str().unwrap_or_default();
    let path = spec["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
    let status = match (resource, path) {
        ("services", _) => return Reply::Code(500, "{}"),
        ("secrets", _) => json!({"allowed": false, "denied": true, "reason": "secrets are not for you"}),
        ("nodes", _) => json!({"allowed": false, "evaluationError": "could not look it up"}),
        ("pods", _) | (_, "/metrics") => json!({"allowed": true, "reason": ""}),
        _ => json!({"allowed": false, "reason": "the webhook has its reasons"}),
    };
    let mut answer = asked.body.clone();
    answer["status"] = status;
    Reply::Json(answer)
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_asked_and_believed_as_by_kubernetes() {
    let outside = Outside::new();
    let (authn, authz) = (outside.run("authn.example", review), outside.run("authz.example", access));
    let hook = outside.authorizer("https://authz.example/authz");
    let chain = vec![Mode::Rbac, Mode::Webhook(Box::new(hook))];
    let world = World::new(&outside, outside.reviewer("https://authn.example/authn"), Authorization { chain }).await;
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    for case in &recorded {
        let text = |index: usize| case["request"][index].as_str().unwrap_or_default();
        let (method, path, token) = (text(0), text(1), text(2));
        let bearer = format!("Bearer {token}");
        let headers = if token.is_empty() { Vec::new() } else { vec![("authorization", bearer.as_str())] };
        let answer = world.send(Peer::Unknown, method, path, &headers, Value::Null).await;
        let what = format!("{method} {path} {token}");
        assert_eq!(u64::from(answer.code), case["code"], "{what}: {}", answer.text);
        if answer.code >= 400 {
            assert_eq!(answer.message(), case["message"], "{what}");
        }
        let times = usize::try_from(case["times"].as_u64().unwrap_or(1)).unwrap();
        let asked: Vec<Value> = authn
            .asked()
            .into_iter()
            .map(|asked| ("/authn?timeout=30s", asked))
            .chain(authz.asked().into_iter().map(|asked| ("/authz?timeout=3s", asked)))
            .map(|(path, asked)| {
                assert_eq!(asked.path, path);
                assert_eq!(asked.headers["content-type"], "application/json");
                json!({"path": path.split('?').next(), "spec": asked.body["spec"]})
            })
            .collect();
        let expected: Vec<Value> =
            case["asked"].as_array().unwrap().iter().flat_map(|asked| vec![asked.clone(); times]).collect();
        assert_eq!(asked, expected, "{what}");
    }
    assert_eq!(recorded.len(), 19);
}

#[tokio::test(start_paused = true)]
async fn reviews_say_what_the_webhooks_say() {
    let outside = Outside::new();
    outside.run("authn.example", review);
    outside.run("authz.example", access);
    let hook = outside.authorizer("https://authz.example/authz");
    let chain = vec![Mode::Rbac, Mode::Webhook(Box::new(hook))];
    let world = World::new(&outside, outside.reviewer("https://authn.example/authn"), Authorization { chain }).await;
    let jane = json!({"username": "jane", "uid": "42", "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"example.com/scope": ["a", "b"]}});
    assert_eq!(world.who("good-1").await, Ok(jane.clone()));
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = world.admin("POST", tokens, json!({"spec": {"token": "good-9"}})).await;
    let whole = json!({"authenticated": true, "user": jane, "audiences": [crate::outside::ISSUER]});
    assert_eq!(answer.body["status"], whole, "{}", answer.text);
    for (token, error) in [("unknown", "no such token"), ("bad", "invalid bearer token")] {
        let answer = world.admin("POST", tokens, json!({"spec": {"token": token}})).await;
        assert_eq!(answer.body["status"], json!({"user": {}, "error": error}), "{token}");
    }
    let answer = world.admin("POST", tokens, json!({"spec": {}})).await;
    assert_eq!((answer.code, answer.message()), (400, "token is required for TokenReview in authentication"));
    let access = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let about = |resource: &str| {
        json!({"spec": {"user": "jane", "resourceAttributes": {"namespace": "default", "verb": "list",
            "resource": resource}}})
    };
    let status = async |resource: &str| world.admin("POST", access, about(resource)).await.body["status"].clone();
    let denied = json!({"allowed": false, "denied": true, "reason": "secrets are not for you"});
    assert_eq!(status("secrets").await, denied);
    let error = "an error on the server (\"unknown\") has prevented the request from succeeding";
    assert_eq!(status("services").await, json!({"allowed": false, "evaluationError": error}));
    assert_eq!(status("pods").await, json!({"allowed": true}));
}
