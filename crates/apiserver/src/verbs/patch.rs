//! `PATCH /…/pods/web`: four ways to say what should change.

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::catalogue::Resource;
use crate::exchange::Exchange;
use crate::incoming::{self, FieldValidation};
use crate::parse::{self, Duplicates, Parsed};
use crate::registry::{Change, Registry, Write};
use http::Response;
use pintle_meta::{Status, object};
use pintle_schema::apply::{ApplyError, Manager, Operation};
use pintle_schema::patch::{PatchError, PatchErrorKind};
use pintle_schema::{apply, json_patch, merge_patch, strategic};
use serde_json::Value;

const ACCEPTED: [&str; 4] = [JSON, MERGE, STRATEGIC, APPLY];
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub async fn patch(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let patcher = Patcher::read(exchange)?;
    let stored = server.registry.stored_resource(&exchange.resource);
    let manager = exchange.manager()?;
    let name = exchange.path.name.clone();
    let validation = exchange.field_validation()?;
    let mut warnings = std::mem::take(&mut exchange.warnings);
    let mut write = exchange.write(&stored, &manager)?;
    if patcher.kind == APPLY {
        write.origin.verb = "apply";
    }
    let now = server.registry.clock.now_rfc3339();
    let mut doubts = Vec::new();
    let result = server
        .registry
        .update(&write, &name, &mut warnings, |current| {
            doubts.clear();
            patcher.change(&server.registry, &exchange.resource, &write, &name, current, &now, validation, &mut doubts)
        })
        .await;
    warnings.append(&mut doubts);
    exchange.warnings = warnings;
    let (written, created) = result?;
    Ok(answer(server, exchange, if created { 201 } else { 200 }, written))
}

/// A patch that was read and understood.
pub struct Patcher {
    kind: &'static str,
    patch: Value,
    duplicates: Duplicates,
    force: bool,
}

impl Patcher {
    pub fn read(exchange: &Exchange) -> Result<Self, Status> {
        let media = incoming::media_type(&exchange.headers);
        let accepted: Vec<&str> =
            ACCEPTED.into_iter().filter(|a| !(exchange.resource.custom && *a == STRATEGIC)).collect();
        let Some(kind) = accepted.iter().copied().find(|a| *a == media) else {
            return Err(Status::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format - accepted media types include: {}",
                    accepted.join(", ")
                ),
            ));
        };
        let force = exchange.query.flag("force");
        if kind == APPLY && exchange.query.get("fieldManager").is_empty() {
            let error = pintle_meta::field::Error::required(
                &pintle_meta::field::Path::new("fieldManager"),
                "is required for apply patch",
            );
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        if kind != APPLY && force {
            let error = pintle_meta::field::Error::forbidden(
                &pintle_meta::field::Path::new("force"),
                "may not be specified for non-apply patch",
            );
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let parsed = match kind {
            APPLY => {
                parse::yaml(&exchange.body).map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))?
            }
            _ => parse::json(&exchange.body).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?,
        };
        if kind != JSON && !parsed.value.is_object() {
            return Err(Status::bad_request("error decoding patch: a patch of this type must be an object"));
        }
        Ok(Patcher { kind, patch: parsed.value, duplicates: parsed.duplicates, force })
    }

    /// What the patch makes of the current object, in the stored version.
    #[expect(clippy::too_many_arguments, reason = "a patch depends on all of these")]
    pub fn change(
        &self,
        registry: &Registry,
        resource: &Resource,
        write: &Write<'_>,
        name: &str,
        current: Option<&Value>,
        now: &str,
        validation: FieldValidation,
        doubts: &mut Vec<String>,
    ) -> Result<Change, Status> {
        let shown = current.map(|value| registry.value_in(resource, value.clone()));
        if self.kind == APPLY {
            return self.apply(registry, resource, write, name, shown.as_ref(), now, validation, doubts);
        }
        let Some(shown) = shown else {
            return Err(Status::not_found(&resource.group, &resource.name, name));
        };
        let patched = match self.kind {
            JSON => json_patch::apply(&shown, &self.patch),
            MERGE => merge_patch::apply(&shown, &self.patch),
            _ => strategic::apply(resource.schema(), &shown, &self.patch),
        };
        let patched = patched.map_err(|error| patch_error(&error))?;
        let parsed = Parsed { value: patched, duplicates: self.duplicates.clone(), text: None };
        let mut object = incoming::accept(resource, parsed, validation, doubts)?;
        registry.to_stored(resource, &mut object);
        Ok(Change::new(object))
    }

    #[expect(clippy::too_many_arguments, reason = "an apply depends on all of these")]
    fn apply(
        &self,
        registry: &Registry,
        resource: &Resource,
        write: &Write<'_>,
        name: &str,
        live: Option<&Value>,
        now: &str,
        validation: FieldValidation,
        doubts: &mut Vec<String>,
    ) -> Result<Change, Status> {
        if live.is_none() && !write.subresource.is_empty() {
            return Err(Status::not_found(&resource.group, &resource.name, name));
        }
        let mut applied = self.patch.clone();
        for key in ["apiVersion", "kind"] {
            if object::text(&applied, &[key]).is_empty() {
                return Err(Status::bad_request(format!("invalid object type: /, Kind={}", object::kind(&applied))));
            }
        }
        match object::name(&applied) {
            "" => {
                object::metadata(&mut applied).insert("name".into(), name.into());
            }
            said if said != name => {
                return Err(Status::bad_request(format!(
                    "the name of the object ({said}) does not match the name on the URL ({name})"
                )));
            }
            _ => {}
        }
        if applied.get("metadata").and_then(|m| m.get("managedFields")).is_some_and(|m| !m.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        if let (Some(live), version) = (live, object::resource_version(&applied))
            && !version.is_empty()
            && version != object::resource_version(live)
        {
            return Err(Status::modified(&resource.group, &resource.name, name));
        }
        // Checked for its types and unknown fields, but not completed: who applies owns only what it says.
        let parsed = Parsed { value: applied, duplicates: self.duplicates.clone(), text: None };
        let applied = incoming::accept_partial(resource, parsed, validation, doubts)?;
        let api_version = resource.api_version();
        let manager = Manager {
            name: write.manager,
            operation: Operation::Apply,
            api_version: &api_version,
            subresource: write.subresource,
            time: now,
        };
        let merged = apply::apply(resource.schema(), live, &applied, &manager, self.force, write.reset_fields())
            .map_err(|error| apply_error(&error))?;
        let mut object = incoming::complete(resource, merged)?;
        registry.to_stored(resource, &mut object);
        Ok(Change { object, tracked: true })
    }
}

fn patch_error(error: &PatchError) -> Status {
    match error.kind {
        PatchErrorKind::BadRequest => Status::bad_request(error.message.clone()),
        PatchErrorKind::TooLarge => Status::too_large(error.message.clone()),
        PatchErrorKind::Invalid => {
            Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
                .with_details(serde_json::json!({}))
        }
    }
}

fn apply_error(error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let causes: Vec<Value> = apply::conflict_causes(conflicts)
                .into_iter()
                .map(|c| serde_json::json!({"reason": c.reason, "message": c.message, "field": c.field}))
                .collect();
            Status::new(409, "Conflict", error.to_string()).with_details(serde_json::json!({"causes": causes}))
        }
        ApplyError::BadRequest(message) => Status::bad_request(message.clone()),
        ApplyError::Invalid(message) => Status::new(500, "", message.clone()),
    }
}
