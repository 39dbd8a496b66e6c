//! Questions that are answered and not stored: who am I, may I, is this token good.

use crate::ApiServer;
use crate::admission::Operation;
use crate::authn::User;
use crate::authz::Verdict;
use crate::authz::rule::Rule;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::request::{ResourcePath, Sent};
use crate::response;
use crate::verb::Verb;
use crate::verbs;
use http::Response;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{Status, object};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The answer, if the resource is a question.
pub async fn dispatch(
    server: &ApiServer,
    call: &Call,
    sent: &Sent,
    notes: &Notes,
) -> Option<Result<Response<Body>, Status>> {
    let kind = call.resource.as_ref()?.kind.as_str();
    let answer = match kind {
        "SelfSubjectReview"
        | "TokenReview"
        | "SelfSubjectAccessReview"
        | "SubjectAccessReview"
        | "LocalSubjectAccessReview"
        | "SelfSubjectRulesReview" => review(server, call, sent, notes).await,
        "ComponentStatus" => component_statuses(server, call),
        _ => return None,
    };
    Some(answer)
}

async fn review(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let registry = &server.registry;
    let mut question = verbs::read_object(registry, call, sent, notes)?;
    registry.admission.pass(registry, call, notes, Operation::Create, &mut question).await?;
    let resource = call.resource()?;
    let kind = resource.kind.as_str();
    let mut errors = Vec::new();
    validate(kind, call.namespace(), &question, &mut errors);
    if !errors.is_empty() {
        // Kubernetes names no kind here.
        return Err(Status::invalid(&resource.group, "", "", &errors));
    }
    if kind == "SelfSubjectReview" {
        question["metadata"] = json!({"creationTimestamp": server.registry.clock.now_rfc3339()});
    }
    let user = call.user.clone();
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(&user)}),
        "TokenReview" => token(server, &question).await,
        "SelfSubjectAccessReview" => decide(server, user, &question).await,
        "SelfSubjectRulesReview" => {
            let namespace = object::text(&question, &["spec", "namespace"]).to_owned();
            if namespace.is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            rules(server, &user, &namespace).await
        }
        _ => {
            let mut asked = User::new(object::text(&question, &["spec", "user"]), &[]);
            asked.groups = object::list(&question, &["spec", "groups"])
                .iter()
                .filter_map(|g| g.as_str().map(str::to_owned))
                .collect();
            decide(server, Arc::new(asked), &question).await
        }
    };
    object::metadata(&mut question);
    question["status"] = status;
    Ok(response::value(201, call.wanted()?, &question))
}

/// A question about access names one thing and somebody; a local one stays in the namespace of its path.
fn validate(kind: &str, namespace: &str, question: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    if !matches!(kind, "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview") {
        return;
    }
    let metadata = question.get("metadata").and_then(Value::as_object);
    let own = |key: &str| key == "managedFields" || (key == "namespace" && kind == "LocalSubjectAccessReview");
    if metadata.into_iter().flatten().any(|(key, value)| !own(key) && !value.is_null()) {
        errors.push(Error::invalid(&Path::new("metadata"), question["metadata"].clone(), "must be empty"));
    }
    let part = |key: &str| object::at(question, &["spec", key]).filter(|value| !value.is_null());
    let (resource, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    match (resource, path) {
        (Some(_), Some(path)) => errors.push(Error::invalid(
            &spec.child("nonResourceAttributes"),
            path.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(Error::invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let named = !object::text(question, &["spec", "user"]).is_empty()
        || !object::list(question, &["spec", "groups"]).is_empty();
    if kind != "SelfSubjectAccessReview" && !named {
        errors.push(Error::invalid(&spec.child("user"), "", "at least one of user or group must be specified"));
    }
    if kind != "LocalSubjectAccessReview" {
        return;
    }
    let given = object::namespace(question);
    if !given.is_empty() && given != namespace {
        errors.push(Error::invalid(
            &Path::new("metadata").child("namespace"),
            given,
            "must match the namespace of the path",
        ));
    }
    let asked = resource.map(|resource| object::text(resource, &["namespace"])).filter(|asked| *asked != namespace);
    if let Some(asked) = asked {
        let path = spec.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, asked, "must match metadata.namespace"));
    }
    if let Some(path) = path {
        let why = "disallowed on this kind of request";
        errors.push(Error::invalid(&spec.child("nonResourceAttributes"), path.clone(), why));
    }
}

/// For whom a token speaks, to those who are named or else to this server.
async fn token(server: &ApiServer, question: &Value) -> Value {
    let named = object::list(question, &["spec", "audiences"]).iter().filter_map(Value::as_str);
    let named: Vec<&str> = named.collect();
    let audiences = if named.is_empty() { vec![crate::authn::token::ISSUER] } else { named };
    match server.tokens.verify_for(object::text(question, &["spec", "token"]), &audiences).await {
        Some((user, meant)) => json!({"authenticated": true, "user": user_info(&user), "audiences": meant}),
        None => json!({"user": {}, "error": "the token is not valid"}),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

async fn decide(server: &ApiServer, user: Arc<User>, question: &Value) -> Value {
    let text = |path: &[&str]| object::text(question, path).to_owned();
    let asked = if let Some(what) = object::at(question, &["spec", "resourceAttributes"]) {
        let text = |key: &str| object::text(what, &[key]).to_owned();
        let path = ResourcePath {
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            ..ResourcePath::default()
        };
        Call::asks(user, Verb::of(&text("verb")), path)
    } else {
        let verb = Verb::of(&text(&["spec", "nonResourceAttributes", "verb"]));
        Call::asks_path(user, verb, &text(&["spec", "nonResourceAttributes", "path"]))
    };
    let (mut status, reason) = match server.authorizer.judge(&asked).await {
        Verdict::Allow(reason) => (json!({"allowed": true}), reason),
        Verdict::Deny(reason) => (json!({"allowed": false, "denied": true}), reason),
        Verdict::NoOpinion(reason) => (json!({"allowed": false}), reason),
    };
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

async fn rules(server: &ApiServer, user: &User, namespace: &str) -> Value {
    let policy = server.authorizer.policy().await;
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let everything =
        Rule { verbs: vec!["*".into()], groups: vec!["*".into()], resources: vec!["*".into()], ..Rule::default() };
    let master = user.is_in(crate::authn::MASTERS).then_some(&everything);
    for rule in master.into_iter().chain(&policy.rules_for(user, namespace)) {
        let mut entry = Map::new();
        for (key, words) in [
            ("verbs", &rule.verbs),
            ("apiGroups", &rule.groups),
            ("resources", &rule.resources),
            ("resourceNames", &rule.names),
            ("nonResourceURLs", &rule.paths),
        ] {
            if !words.is_empty() {
                entry.insert(key.to_owned(), words.clone().into());
            }
        }
        if rule.paths.is_empty() { resources.push(entry) } else { paths.push(entry) }
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// Kept for clients that still look: the one component with a health of its own is the store.
fn component_statuses(server: &ApiServer, call: &Call) -> Result<Response<Body>, Status> {
    let (status, message) = match server.registry.store.health() {
        Ok(()) => ("True", "ok".to_owned()),
        Err(why) => ("False", why),
    };
    let store = json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "store"},
        "conditions": [{"type": "Healthy", "status": status, "message": message}]});
    let wanted = call.wanted()?;
    match call.path.name.as_str() {
        "" => {
            let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [store]});
            Ok(response::value(200, wanted, &list))
        }
        "store" => Ok(response::value(200, wanted, &store)),
        other => Err(Status::not_found("", "componentstatuses", other)),
    }
}
