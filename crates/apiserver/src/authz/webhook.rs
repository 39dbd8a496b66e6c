//! An authorizer outside: asked with a SubjectAccessReview, and believed for a while.
//!
//! Questions that somebody could make large are not remembered; failures are not either.

use super::config::WebhookConfig;
use super::{Judgment, Verdict};
use crate::call::Call;
use crate::memo::{self, Memo};
use crate::outbound::review::Reviewer;
use crate::outbound::{About, Outbound};
use crate::verb::Verb;
use pintle_meta::{Clock, Random, object};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

const MAX_REMEMBERED: usize = 8192;

/// Questions whose attributes are longer are not remembered.
const MAX_ATTRIBUTES_BYTES: usize = 10_000;

pub(super) struct Webhook {
    reviewer: Arc<Reviewer>,
    config: Arc<WebhookConfig>,
    memo: Memo<Judgment>,
}

impl Webhook {
    pub(super) fn new(config: WebhookConfig, outbound: &Arc<Outbound>, clock: &Clock, random: &Random) -> Self {
        let reviewer = Reviewer {
            outbound: outbound.clone(),
            random: random.clone(),
            endpoint: config.endpoint.clone(),
            about: About::Access(config.name.clone()),
            limit: config.timeout,
        };
        Webhook {
            reviewer: Arc::new(reviewer),
            config: Arc::new(config),
            memo: Memo::new(clock.clone(), MAX_REMEMBERED),
        }
    }

    pub(super) async fn judge(&self, call: &Call) -> Judgment {
        let spec = spec(call);
        let key = memo::key([spec.to_string().as_bytes()]);
        let review = json!({"apiVersion": format!("authorization.k8s.io/{}", self.config.version),
            "kind": "SubjectAccessReview", "metadata": {}, "spec": spec, "status": {"allowed": false}});
        let (reviewer, config, is_small) = (self.reviewer.clone(), self.config.clone(), is_small(call));
        let ask = async move {
            match reviewer.ask(&review).await {
                Ok(status) => {
                    let allowed = object::flag(&status, &["allowed"]);
                    let ttl = if allowed { config.authorized_ttl } else { config.unauthorized_ttl };
                    (judgment(&status), if is_small { ttl } else { Duration::ZERO })
                }
                Err(error) => {
                    tracing::warn!(webhook = config.name, %error, "an authorizer gave no answer");
                    if !config.denies_on_failure {
                        reviewer.outbound.counts.fails_open(&config.name, &error);
                    }
                    (failed(error.to_string(), &config), Duration::ZERO)
                }
            }
        };
        let ended = || failed("the question to the authorizer ended early".to_owned(), &self.config);
        self.memo.get(key, ask).await.unwrap_or_else(ended)
    }
}

fn failed(error: String, config: &WebhookConfig) -> Judgment {
    let none = String::new();
    let verdict = if config.denies_on_failure { Verdict::Deny(none) } else { Verdict::NoOpinion(none) };
    Judgment { verdict, error: Some(error) }
}

fn judgment(status: &Value) -> Judgment {
    let reason = object::text(status, &["reason"]).to_owned();
    match (object::flag(status, &["allowed"]), object::flag(status, &["denied"])) {
        (true, true) => {
            let why = "webhook subject access review returned both allow and deny response".to_owned();
            Judgment { verdict: Verdict::Deny(reason), error: Some(why) }
        }
        (_, true) => Verdict::Deny(reason).into(),
        (true, _) => Verdict::Allow(reason).into(),
        _ => Verdict::NoOpinion(reason).into(),
    }
}

/// What is asked. Nothing that is empty stands in it.
fn spec(call: &Call) -> Value {
    let (user, path) = (&call.user, &call.path);
    let mut spec = Map::new();
    put(&mut spec, "user", &user.name);
    put(&mut spec, "uid", &user.uid);
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
    let mut what = Map::new();
    put(&mut what, "verb", call.verb.as_str());
    if !call.is_of_objects() {
        put(&mut what, "path", &call.url);
        spec.insert("nonResourceAttributes".to_owned(), what.into());
        return spec.into();
    }
    for (key, value) in [
        ("namespace", path.namespace.as_str()),
        ("group", &path.group),
        ("version", &path.version),
        ("resource", &path.resource),
        ("subresource", &path.subresource),
        ("name", call.name()),
    ] {
        put(&mut what, key, value);
    }
    if matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
        let fields = call.fields.terms.iter().map(|term| {
            let operator = if term.equal { "In" } else { "NotIn" };
            json!({"key": term.field, "operator": operator, "values": [term.value]})
        });
        let labels = call.labels.expressions().map(|(key, operator, values)| match values {
            [] => json!({"key": key, "operator": operator}),
            values => json!({"key": key, "operator": operator, "values": values}),
        });
        for (key, requirements) in
            [("fieldSelector", fields.collect::<Vec<_>>()), ("labelSelector", labels.collect::<Vec<_>>())]
        {
            if !requirements.is_empty() {
                what.insert(key.to_owned(), json!({"requirements": requirements}));
            }
        }
    }
    spec.insert("resourceAttributes".to_owned(), what.into());
    spec.into()
}

fn put(map: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        map.insert(key.to_owned(), value.into());
    }
}

fn is_small(call: &Call) -> bool {
    let path = &call.path;
    let parts = [
        path.namespace.as_str(),
        call.verb.as_str(),
        &path.group,
        &path.version,
        &path.resource,
        &path.subresource,
        call.name(),
        &call.url,
    ];
    parts.iter().map(|part| part.len()).sum::<usize>() < MAX_ATTRIBUTES_BYTES
}
