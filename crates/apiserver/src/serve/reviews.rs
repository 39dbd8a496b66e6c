//! Questions that are answered and not stored: who am I, may I, is this token good.

use crate::ApiServer;
use crate::authn::User;
use crate::authz::{Attributes, rules::Rule};
use crate::body::Body;
use crate::exchange::Exchange;
use crate::response;
use http::Response;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{Status, object};
use serde_json::{Map, Value, json};

/// The answer, if the resource is a question.
pub async fn dispatch(server: &ApiServer, exchange: &mut Exchange) -> Option<Result<Response<Body>, Status>> {
    let kind = exchange.resource.kind.clone();
    let answer = match kind.as_str() {
        "SelfSubjectReview"
        | "TokenReview"
        | "SelfSubjectAccessReview"
        | "SubjectAccessReview"
        | "LocalSubjectAccessReview"
        | "SelfSubjectRulesReview" => review(server, exchange, &kind).await,
        "ComponentStatus" => Ok(component_statuses(server, exchange)),
        _ => return None,
    };
    Some(answer)
}

async fn review(server: &ApiServer, exchange: &mut Exchange, kind: &str) -> Result<Response<Body>, Status> {
    let mut question = exchange.object(&server.registry)?;
    let mut errors = Vec::new();
    validate(kind, exchange.namespace(), &question, &mut errors);
    if !errors.is_empty() {
        // Kubernetes names no kind here.
        return Err(Status::invalid(&exchange.resource.group, "", "", &errors));
    }
    if kind == "SelfSubjectReview" {
        question["metadata"] = json!({"creationTimestamp": server.registry.clock.now_rfc3339()});
    }
    let user = exchange.user.clone();
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(&user)}),
        "TokenReview" => token(server, &question).await,
        "SelfSubjectAccessReview" => decide(server, &user, &question).await,
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
            decide(server, &asked, &question).await
        }
    };
    object::metadata(&mut question);
    question["status"] = status;
    Ok(response::value(201, exchange.wanted, &question))
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

async fn decide(server: &ApiServer, user: &User, question: &Value) -> Value {
    let text = |path: &[&str]| object::text(question, path);
    let attributes = if let Some(what) = object::at(question, &["spec", "resourceAttributes"]) {
        Attributes {
            verb: object::text(what, &["verb"]),
            group: object::text(what, &["group"]),
            resource: object::text(what, &["resource"]),
            subresource: object::text(what, &["subresource"]),
            namespace: object::text(what, &["namespace"]),
            name: object::text(what, &["name"]),
            ..Attributes::default()
        }
    } else {
        Attributes {
            verb: text(&["spec", "nonResourceAttributes", "verb"]),
            path: Some(text(&["spec", "nonResourceAttributes", "path"])),
            ..Attributes::default()
        }
    };
    if server.authorizer.allows(user, &attributes).await { json!({"allowed": true}) } else { json!({"allowed": false}) }
}

async fn rules(server: &ApiServer, user: &User, namespace: &str) -> Value {
    let policy = server.authorizer.policy().await;
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let everything =
        Rule { verbs: vec!["*".into()], groups: vec!["*".into()], resources: vec!["*".into()], ..Rule::default() };
    let master = user.is_in(crate::authn::MASTERS).then_some(&everything);
    for rule in master.into_iter().chain(policy.rules_for(user, namespace)) {
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
fn component_statuses(server: &ApiServer, exchange: &Exchange) -> Response<Body> {
    let (status, message) = match server.registry.store.health() {
        Ok(()) => ("True", "ok".to_owned()),
        Err(why) => ("False", why),
    };
    let store = json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "store"},
        "conditions": [{"type": "Healthy", "status": status, "message": message}]});
    match exchange.path.name.as_str() {
        "" => {
            let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [store]});
            response::value(200, exchange.wanted, &list)
        }
        "store" => response::value(200, exchange.wanted, &store),
        other => response::failure(&Status::not_found("", "componentstatuses", other)),
    }
}
