//! Issuers of OpenID Connect tokens: their keys, their claims, and what happens when they do not answer.

use crate::outside::{Asked, ISSUER, Outside, Program, Reply, World, accounts};
use pintle_apiserver::authn::config::{Accounts, Authentication};
use pintle_apiserver::authn::keys::Keyring;
use pintle_apiserver::authn::oidc::claims::{Mappings, Prefixed};
use pintle_apiserver::authn::oidc::{ALGORITHMS, Issuer};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const URL: &str = "https://issuer.example";

/// An issuer whose keys may change.
#[derive(Clone)]
struct Issuing {
    keys: Arc<Mutex<Arc<Keyring>>>,
    program: Program,
}

fn key() -> Arc<Keyring> {
    Arc::new(Keyring::new(&rcgen::KeyPair::generate().unwrap().serialize_pem(), Vec::new()).unwrap())
}

impl Issuing {
    fn new(outside: &Outside, name: &str) -> Self {
        let keys = Arc::new(Mutex::new(key()));
        let (shown, url) = (keys.clone(), format!("https://{name}"));
        let program = outside.run(name, move |asked: &Asked| match asked.path.as_str() {
            "/.well-known/openid-configuration" => {
                Reply::Json(json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))
            }
            "/keys" => Reply::Json(shown.lock().unwrap().published()),
            _ => Reply::Code(404, "{}"),
        });
        Issuing { keys, program }
    }

    fn rotate(&self) {
        *self.keys.lock().unwrap() = key();
    }

    /// A token with these claims, the usual ones added.
    fn token(&self, world: &World, changes: Value) -> String {
        let now = world.clock.now().as_second();
        let mut claims =
            json!({"iss": URL, "aud": "me", "sub": "jane", "exp": now + 600, "iat": now, "roles": ["devs"]});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.keys.lock().unwrap().sign(&claims).unwrap()
    }
}

fn issuer(outside: &Outside, url: &str) -> Issuer {
    let prefixed = |claim: &str, prefix: &str| Prefixed { claim: claim.into(), prefix: prefix.into() };
    Issuer {
        url: url.to_owned(),
        audiences: vec!["me".into(), "myself".into()],
        ca_pem: outside.pki.ca_pem.clone(),
        algorithms: ALGORITHMS.iter().map(|(_, algorithm)| *algorithm).collect(),
        mappings: Mappings {
            username: prefixed("sub", "oidc:"),
            groups: Some(prefixed("roles", "")),
            ..Mappings::default()
        },
        ..Issuer::default()
    }
}

fn trusting(issuers: Vec<Issuer>) -> Authentication {
    Authentication { issuers, ..accounts() }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_issuer_is_its_subjects_until_it_expires_and_others_are_nobodys() {
    let outside = Outside::new();
    let issuing = Issuing::new(&outside, "issuer.example");
    let world = World::open(&outside, trusting(vec![issuer(&outside, URL)])).await;
    let token = issuing.token(&world, json!({}));
    let jane = json!({"username": "oidc:jane", "groups": ["devs", "system:authenticated"]});
    assert_eq!(world.who(&token).await, Ok(jane.clone()));
    assert_eq!(world.who(&issuing.token(&world, json!({"aud": ["x", "myself"], "nbf": 1}))).await, Ok(jane));
    let now = world.clock.now().as_second();
    for (what, changes) in [
        ("another audience", json!({"aud": "you"})),
        ("no audience", json!({"aud": null})),
        ("expired", json!({"exp": now})),
        ("without an end", json!({"exp": null})),
        ("of tomorrow", json!({"nbf": now + 86_400})),
        ("of another issuer", json!({"iss": "https://other.example"})),
        ("without a subject", json!({"sub": null})),
    ] {
        assert_eq!(world.who(&issuing.token(&world, changes)).await, Err(401), "{what}");
    }
    let forged = Issuing { keys: Arc::new(Mutex::new(key())), program: issuing.program.clone() };
    assert_eq!(world.who(&forged.token(&world, json!({}))).await, Err(401), "signed by somebody else");
    let (head, rest) = token.split_once('.').unwrap();
    let (claims, _) = rest.split_once('.').unwrap();
    use base64::Engine;
    let none = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for unsigned in [format!("{none}.{claims}."), format!("{head}.{claims}."), format!("{none}.{rest}")] {
        assert_eq!(world.who(&unsigned).await, Err(401), "{unsigned}");
    }
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(world.who(&token).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once_and_again_when_the_issuer_has_new_ones() {
    let outside = Outside::new();
    let issuing = Issuing::new(&outside, "issuer.example");
    let world = World::open(&outside, trusting(vec![issuer(&outside, URL)])).await;
    let tokens: Vec<String> = (0..50).map(|n| issuing.token(&world, json!({"sub": format!("u{n}")}))).collect();
    let all = futures::future::join_all(tokens.iter().map(|token| world.who(token))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(issuing.program.asked().len(), 2, "where the keys are, and the keys");
    let old = issuing.token(&world, json!({"jti": "old"}));
    issuing.rotate();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let new = issuing.token(&world, json!({}));
    assert!(world.who(&new).await.is_ok());
    assert_eq!(issuing.program.asked().len(), 1);
    assert_eq!(world.who(&old).await, Err(401), "the issuer has withdrawn the key");
    issuing.program.asked();
    // Made-up keys cost the issuer one request per second at most.
    let forged = Issuing { keys: Arc::new(Mutex::new(key())), program: issuing.program.clone() };
    for n in 0..100 {
        assert_eq!(world.who(&forged.token(&world, json!({"jti": n.to_string()}))).await, Err(401));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(issuing.program.asked().len() <= 6);
    assert!(world.who(&new).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_is_down_or_lies_lets_nobody_in_and_holds_up_nobody_else() {
    type Behaviour = fn(&Asked) -> Reply;
    let table: [(&str, Behaviour); 8] = [
        ("hangs", |_| Reply::Hangs),
        ("breaks", |_| Reply::Breaks),
        ("answers 500", |_| Reply::Code(500, "{}")),
        ("is no JSON", |_| Reply::Text("<html>".into())),
        ("is another issuer", |_| {
            Reply::Json(json!({"issuer": "https://other.example", "jwks_uri": "https://good.example/keys"}))
        }),
        ("has no keys", |_| Reply::Json(json!({"issuer": URL}))),
        ("has its keys behind plain HTTP", |_| {
            Reply::Json(json!({"issuer": URL, "jwks_uri": "http://good.example/keys"}))
        }),
        ("redirects", |_| {
            Reply::Headers(302, vec![("location", "https://good.example/.well-known/openid-configuration".into())])
        }),
    ];
    for (what, behaviour) in table {
        let outside = Outside::new();
        let good = Issuing::new(&outside, "good.example");
        outside.run("issuer.example", behaviour);
        let issuers = vec![issuer(&outside, URL), issuer(&outside, "https://good.example")];
        let world = World::open(&outside, trusting(issuers)).await;
        let bad = good.token(&world, json!({}));
        let fine = good.token(&world, json!({"iss": "https://good.example"}));
        let began = tokio::time::Instant::now();
        let (refused, known) = tokio::join!(world.who(&bad), async { (world.who(&fine).await, began.elapsed()) });
        assert_eq!(refused, Err(401), "{what}");
        assert!(known.0.is_ok() && known.1 < Duration::from_secs(1), "{what}: {known:?}");
        // It comes back.
        let keys = good.keys.clone();
        outside.run("issuer.example", move |asked: &Asked| match asked.path.as_str() {
            "/keys" => Reply::Json(keys.lock().unwrap().published()),
            _ => Reply::Json(json!({"issuer": URL, "jwks_uri": format!("{URL}/keys")})),
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(world.who(&bad).await.is_ok(), "{what}: and is back");
    }
}

#[tokio::test(start_paused = true)]
async fn an_issuer_may_publish_its_keys_elsewhere_and_sign_only_as_it_is_allowed() {
    let outside = Outside::new();
    let issuing = Issuing::new(&outside, "issuer.example");
    let keys = issuing.keys.clone();
    outside.run("inside.example", move |asked: &Asked| match asked.path.as_str() {
        "/discovery" => Reply::Json(json!({"issuer": URL, "jwks_uri": "https://inside.example/keys"})),
        _ => Reply::Json(keys.lock().unwrap().published()),
    });
    let elsewhere = Issuer { discovery_url: Some("https://inside.example/discovery".into()), ..issuer(&outside, URL) };
    let strict = Issuer { algorithms: vec![ALGORITHMS[0].1], ..elsewhere.clone() };
    let world = World::open(&outside, trusting(vec![elsewhere])).await;
    assert!(world.who(&issuing.token(&world, json!({}))).await.is_ok());
    assert!(issuing.program.asked().is_empty());
    let world = World::open(&outside, trusting(vec![strict])).await;
    assert_eq!(world.who(&issuing.token(&world, json!({}))).await, Err(401), "RS256 alone is allowed");
}

#[tokio::test(start_paused = true)]
async fn a_token_review_says_why_and_for_whom_a_token_of_an_issuer_is() {
    let outside = Outside::new();
    let issuing = Issuing::new(&outside, "issuer.example");
    let authentication = Authentication {
        accounts: Accounts { audiences: vec![ISSUER.into(), "vault".into()], ..accounts().accounts },
        ..trusting(vec![issuer(&outside, URL)])
    };
    let world = World::open(&outside, authentication).await;
    let review = async |token: &str, audiences: &[&str]| {
        let question = json!({"spec": {"token": token, "audiences": audiences}});
        world.admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", question).await.body["status"].clone()
    };
    let good = issuing.token(&world, json!({}));
    assert_eq!(review(&good, &[]).await["audiences"], json!([ISSUER, "vault"]));
    assert_eq!(review(&good, &["vault", "other"]).await["audiences"], json!(["vault"]));
    assert_eq!(review(&good, &["other"]).await["authenticated"], Value::Null);
    let other = issuing.token(&world, json!({"aud": "you"}));
    let why = r#"oidc: verify token: oidc: expected audience in ["me", "myself"] got ["you"]"#;
    assert_eq!(review(&other, &[]).await["error"], why);
}
