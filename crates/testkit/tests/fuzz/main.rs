//! Requests that no client would send, made from requests that clients do send: whatever comes, the answer is there in two seconds and
//! is no server error.
//!
//! The short form runs with all tests; `cargo xtask torture fuzz` goes on for a million cases per part (a test is a part). The same seed
//! makes the same cases: a failure prints its seed and number.

mod mutate;
mod parts;
mod protobuf;
mod samples;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use mutate::Mutator;
use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_meta::Random;
use pintle_testkit::{Answer, Cluster};
use samples::{Sample, samples};
use std::time::Duration;

/// Cases of each part in the short form.
const SHORT: u64 = 1_000;
/// After so many cases a new cluster begins, so that what was stored does not grow without end.
const LIFE: u64 = 1_000;
const SLOW: Duration = Duration::from_secs(2);
/// Larger bodies take a parser without optimisation too long to tell what hangs from what is large.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// A watch ends by itself; nobody waits longer for one, in virtual time.
const LONGEST_WATCH: Duration = Duration::from_secs(3600);

/// Server errors that Kubernetes answers too, to the same requests.
const AS_UPSTREAM: &[(u16, &str)] = &[
    (500, "resourceVersion should not be set on objects to be created"),
    (500, "failed to create typed patch object"),
    (500, "strconv.ParseUint"),
    (504, "Too large resource version"),
    // A webhook that a case before has registered: nobody is there.
    (500, "failed calling webhook"),
    (500, "conversion webhook for"),
];

/// One request to be.
pub struct Case {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Case {
    pub fn new(method: &'static str, path: impl Into<String>, media: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), media.as_bytes().to_vec())];
        Case { method, path: path.into(), headers, body: body.into() }
    }
}

/// What a part makes its cases from.
pub struct Source<'a> {
    pub mutator: Mutator<'a>,
    pub samples: &'a [Sample],
}

type Part = fn(&Source<'_>) -> Vec<Case>;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A cluster in which every sample is there, under the name `base`.
async fn cluster(samples: &[Sample]) -> Cluster {
    let cluster = Cluster::bare().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = cluster.request("POST", definitions, "application/json", samples::ships().to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.request("POST", accounts, "application/json", r#"{"metadata":{"name":"default"}}"#).await;
    let mut refused = Vec::new();
    for sample in samples.iter().filter(|sample| sample.is_valid) {
        let mut object = sample.object.clone();
        if !sample.is_question() && object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = "base".into();
        }
        let answer = cluster.request("POST", sample.collection, "application/json", object.to_string()).await;
        if answer.code != 201 {
            refused.push(format!("{}: {}", sample.collection, answer.body));
        }
    }
    assert!(refused.is_empty(), "a sample is not valid: {refused:#?}");
    cluster
}

async fn send(cluster: &Cluster, case: &Case) -> Option<Answer> {
    if case.body.len() > MAX_BODY_BYTES {
        return None;
    }
    let uri: Uri = case.path.parse().ok()?;
    let mut headers = HeaderMap::new();
    for (name, value) in &case.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let peer = Peer::Internal(User::internal("kubernetes-admin").into());
    let method = Method::from_bytes(case.method.as_bytes()).ok()?;
    let sent = cluster.send(peer, method, uri, headers, Bytes::from(case.body.clone()));
    tokio::time::timeout(LONGEST_WATCH, sent).await.ok()
}

#[expect(clippy::disallowed_methods, reason = "how long an answer takes is measured in real time")]
async fn fuzz(part: Part) {
    let samples = samples();
    let mut words = Vec::new();
    samples.iter().for_each(|sample| mutate::words(&sample.object, &mut words));
    let (count, seed) = (number("PINTLE_FUZZ_CASES", SHORT), number("PINTLE_SEED", 1));
    let random = Random::seeded(seed);
    let source = Source { mutator: Mutator { random: &random, words: &words }, samples: &samples };
    let (mut made, mut answered, mut codes) = (0, 0, std::collections::BTreeMap::<u16, u64>::new());
    let mut slowest = (Duration::ZERO, String::new());
    while made < count {
        let cluster = cluster(&samples).await;
        for _ in 0..LIFE.min(count - made) {
            made += 1;
            for case in part(&source) {
                let started = std::time::Instant::now();
                let Some(answer) = send(&cluster, &case).await else { continue };
                let mut took = started.elapsed();
                if took >= SLOW {
                    // The machine may have been busy: what is slow is slow again.
                    let again = std::time::Instant::now();
                    send(&cluster, &case).await;
                    took = took.min(again.elapsed());
                }
                if took > slowest.0 {
                    let path: String = case.path.chars().take(200).collect();
                    slowest = (
                        took,
                        format!("case {made}: {} {path}, {} bytes, {}", case.method, case.body.len(), answer.code),
                    );
                }
                answered += 1;
                *codes.entry(answer.code).or_default() += 1;
                let known =
                    AS_UPSTREAM.iter().any(|(code, text)| answer.code == *code && answer.message().contains(text))
                        || (answer.code == 503 && is_passed_on(&case.path));
                let shown = || {
                    let body = String::from_utf8_lossy(&case.body).chars().take(2000).collect::<String>();
                    let path: String = case.path.chars().take(500).collect();
                    format!(
                        "seed {seed}, case {made}: {} {path} {:?}\n{body}\n→ {} {}",
                        case.method,
                        case.headers.len(),
                        answer.code,
                        answer.body
                    )
                };
                assert!(answer.code < 500 || answer.code == 501 || known, "a server error: {}", shown());
                assert!(took < SLOW, "{took:?}: {}", shown());
            }
        }
    }
    println!("{made} cases, {answered} answers, slowest {slowest:?}, codes {codes:?}");
}

/// A proxy answers 503 where there is no backend for the request, as Kubernetes' does; to HEAD without a body.
fn is_passed_on(path: &str) -> bool {
    path.split('?').next().unwrap_or_default().split('/').any(|word| word == "proxy")
}

macro_rules! parts {
    ($($name:ident),*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                fuzz(parts::$name).await;
            }
        )*
    };
}

parts!(json, yaml, protobuf, patches, selectors, field_paths, requests);
