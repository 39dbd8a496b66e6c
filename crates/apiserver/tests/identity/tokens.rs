//! Tokens that this server knows by itself: those of a file, and those of service accounts under keys and issuers that change.
//! And those who show none.

use crate::outside::{ISSUER, Outside, World, accounts};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use pintle_apiserver::authn::config::{Accounts, Anonymous, Authentication};
use pintle_apiserver::authn::keys::{Keyring, PublicKey};
use pintle_apiserver::authn::static_tokens::StaticTokens;
use pintle_apiserver::authz::config::Authorization;
use pintle_apiserver::request::Peer;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_token_of_the_file_is_its_users_and_works_for_browsers_too() {
    let outside = Outside::new();
    let static_tokens = StaticTokens::parse("t1,jane,42,\"devs,ops\"\n").unwrap();
    let world = World::open(&outside, Authentication { static_tokens: Some(static_tokens), ..accounts() }).await;
    let jane = json!({"username": "jane", "uid": "42", "groups": ["devs", "ops", "system:authenticated"]});
    assert_eq!(world.who("t1").await, Ok(jane));
    assert_eq!(world.who("t2").await, Err(401));
    let protocols = |token: &str| {
        let token = BASE64_URL_SAFE_NO_PAD.encode(token);
        format!("base64url.bearer.authorization.k8s.io.{token}, v5.channel.k8s.io")
    };
    for (token, code) in [("t1", 404), ("t2", 401)] {
        let protocols = protocols(token);
        let headers =
            [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", protocols.as_str())];
        let path = "/api/v1/namespaces/default/pods/x";
        assert_eq!(world.send(Peer::Unknown, "GET", path, &headers, Value::Null).await.code, code, "{token}");
        assert_eq!(world.send(Peer::Unknown, "GET", path, &headers[2..], Value::Null).await.code, 404, "no upgrade");
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_show_nothing_get_only_as_far_as_is_configured() {
    let outside = Outside::new();
    for (anonymous, health, version, pods) in [
        (Anonymous::Everywhere, 200, 200, 403),
        (Anonymous::At(vec!["/healthz".into()]), 200, 401, 401),
        (Anonymous::Refused, 401, 401, 401),
    ] {
        let authentication = Authentication { anonymous: anonymous.clone(), ..accounts() };
        let world = World::new(&outside, authentication, Authorization::default()).await;
        let code = async |path: &str| world.get(path, "").await.code;
        let codes = (code("/healthz").await, code("/version").await, code("/api/v1/namespaces/default/pods").await);
        assert_eq!(codes, (health, version, pods), "{anonymous:?}");
        assert_eq!(world.get("/healthz", "wrong").await.code, 401, "a bad token is never no token");
    }
}

#[tokio::test(start_paused = true)]
async fn service_account_tokens_outlive_a_change_of_key_and_issuer_as_long_as_the_old_ones_are_known() {
    let outside = Outside::new();
    let (old, new) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
    let keyring = |signs: &rcgen::KeyPair, others: &[&rcgen::KeyPair]| {
        let others = others.iter().flat_map(|key| PublicKey::of_pem(&key.public_key_pem()).unwrap()).collect();
        Some(Keyring::new(&signs.serialize_pem(), others).unwrap())
    };
    let accounts = |issuers: &[&str]| Accounts {
        issuers: issuers.iter().map(|issuer| (*issuer).to_owned()).collect(),
        ..Accounts::default()
    };
    let next = "https://next.example";
    let before = Authentication { keyring: keyring(&old, &[]), accounts: accounts(&[ISSUER]), ..Default::default() };
    let world = World::open(&outside, before).await;
    let account = json!({"metadata": {"name": "robot"}});
    let made = world.admin("POST", "/api/v1/namespaces/default/serviceaccounts", account.clone()).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let issue = async |world: &World| {
        let answer = world.admin("POST", path, json!({"spec": {}})).await;
        answer.body["status"]["token"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
    };
    let token = issue(&world).await;
    assert!(world.who(&token).await.is_ok());

    for (keys, issuers, good) in [
        (keyring(&new, &[&old]), &[next, ISSUER][..], true),
        (keyring(&new, &[&old]), &[next], false),
        (keyring(&new, &[]), &[next, ISSUER], false),
    ] {
        let after = Authentication { keyring: keys, accounts: accounts(issuers), ..Default::default() };
        let world = World::over(&outside, after, &world).await;
        assert_eq!(world.who(&token).await.is_ok(), good, "{issuers:?}");
        let fresh = issue(&world).await;
        assert!(world.who(&fresh).await.is_ok());
        let document = world.admin("GET", "/.well-known/openid-configuration", Value::Null).await.body;
        assert_eq!(document["issuer"], next);
        assert_eq!(document["jwks_uri"], format!("{next}/openid/v1/jwks"));
        let keys = world.admin("GET", "/openid/v1/jwks", Value::Null).await.body;
        let head = BASE64_URL_SAFE_NO_PAD.decode(fresh.split('.').next().unwrap()).unwrap();
        let head: Value = serde_json::from_slice(&head).unwrap();
        assert!(keys["keys"].as_array().unwrap().iter().any(|key| key["kid"] == head["kid"]), "{keys}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_review_says_why_a_service_accounts_token_is_not_good() {
    let outside = Outside::new();
    let world = World::open(&outside, accounts()).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.admin("POST", accounts, json!({"metadata": {"name": "robot"}})).await;
    let asked = json!({"spec": {"expirationSeconds": 600, "audiences": [ISSUER, "vault"]}});
    let answer = world.admin("POST", &format!("{accounts}/robot/token"), asked).await;
    let token = answer.body["status"]["token"].as_str().unwrap().to_owned();
    let review = async |audiences: &[&str]| {
        let question = json!({"spec": {"token": token, "audiences": audiences}});
        world.admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", question).await.body["status"].clone()
    };
    assert_eq!(review(&["vault", "x"]).await["audiences"], json!(["vault"]));
    let why = format!(r#"token audiences ["{ISSUER}", "vault"] is invalid for the target audiences ["x"]"#);
    assert_eq!(review(&["x"]).await["error"], why);
    world.admin("DELETE", &format!("{accounts}/robot"), Value::Null).await;
    assert_eq!(review(&[]).await["error"], "service account token has been invalidated");
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    assert_eq!(review(&[]).await["error"], "service account token has expired");
}
