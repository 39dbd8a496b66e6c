//! Questions that are answered and not stored: who am I, may I, is this token good.

mod access;

use crate::ApiServer;
use crate::admission::Operation;
use crate::authn::User;
use crate::authn::webhook::extra_values;
use crate::authz::rule::Rule;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::request::Sent;
use crate::response;
use crate::verbs;
use http::Response;
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
    if kind == "TokenReview" && object::text(&question, &["spec", "token"]).is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let mut errors = Vec::new();
    access::validate(kind, call.namespace(), &question, &mut errors)?;
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
        "SelfSubjectAccessReview" => access::decide(server, user, &question).await,
        "SelfSubjectRulesReview" => {
            let namespace = object::text(&question, &["spec", "namespace"]).to_owned();
            if namespace.is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            rules(server, &user, &namespace).await
        }
        _ => {
            let groups = object::list(&question, &["spec", "groups"]).iter();
            let extra = object::at(&question, &["spec", "extra"]).and_then(Value::as_object);
            let asked = User {
                name: object::text(&question, &["spec", "user"]).to_owned(),
                uid: object::text(&question, &["spec", "uid"]).to_owned(),
                groups: groups.filter_map(|group| group.as_str().map(str::to_owned)).collect(),
                extra: extra.map(extra_values).unwrap_or_default(),
            };
            access::decide(server, Arc::new(asked), &question).await
        }
    };
    object::metadata(&mut question);
    question["status"] = status;
    Ok(response::value(201, call.wanted()?, &question))
}

/// The user that a token authenticates, for the named audiences or else for this server.
async fn token(server: &ApiServer, question: &Value) -> Value {
    let named = object::list(question, &["spec", "audiences"]).iter();
    let named: Vec<String> = named.filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    let audiences = if named.is_empty() { server.authenticator.tokens.audiences() } else { &named[..] };
    match server.authenticator.review(object::text(question, &["spec", "token"]), audiences).await {
        Ok((user, meant)) => json!({"authenticated": true, "user": user_info(&user), "audiences": meant}),
        Err(why) => json!({"user": {}, "error": why}),
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
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    match server.authorizer.beyond_roles(user).as_slice() {
        [] => {}
        [one] => status["evaluationError"] = (*one).into(),
        many => status["evaluationError"] = format!("[{}]", many.join(", ")).into(),
    }
    status["incomplete"] = status.get("evaluationError").is_some().into();
    status
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
