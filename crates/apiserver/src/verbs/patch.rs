//! `PATCH /…/pods/web`: four ways to say what should change.

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::incoming::{self, FieldValidation};
use crate::notes::Notes;
use crate::parse::{self, Duplicates, Parsed};
use crate::registry::{Change, Registry};
use crate::request::Sent;
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

pub async fn patch(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let patcher = Patcher::read(server, call, sent, notes)?;
    let (written, created) = server.registry.update(call, notes, |current| patcher.change(current)).await?;
    answer(server, call, if created { 201 } else { 200 }, written).await
}

/// Is it a patch that says what its sender wants, and no more?
pub fn is_apply(call: &Call) -> bool {
    incoming::media_type(&call.headers) == APPLY
}

/// A patch that was read and understood.
struct Patcher<'a> {
    registry: &'a Registry,
    call: &'a Call,
    notes: &'a Notes,
    resource: &'a Resource,
    kind: &'static str,
    patch: Value,
    duplicates: Duplicates,
    validation: FieldValidation,
    manager: String,
}

impl<'a> Patcher<'a> {
    fn read(server: &'a ApiServer, call: &'a Call, sent: &Sent, notes: &'a Notes) -> Result<Self, Status> {
        let resource = call.resource()?;
        let media = incoming::media_type(&call.headers);
        let accepted: Vec<&str> = ACCEPTED.into_iter().filter(|a| !(resource.custom && *a == STRATEGIC)).collect();
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
        let force = call.query.flag("force");
        if kind == APPLY && call.query.get("fieldManager").is_empty() {
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
            APPLY => parse::yaml(&sent.body).map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))?,
            _ => parse::json(&sent.body).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?,
        };
        if kind != JSON && !parsed.value.is_object() {
            return Err(Status::bad_request("error decoding patch: a patch of this type must be an object"));
        }
        Ok(Patcher {
            registry: &server.registry,
            call,
            notes,
            resource,
            kind,
            patch: parsed.value,
            duplicates: parsed.duplicates,
            validation: call.field_validation()?,
            manager: call.manager()?,
        })
    }

    /// What the patch makes of the current object, in the stored version.
    fn change(&self, current: Option<&Value>) -> Result<Change, Status> {
        let (resource, name) = (self.resource, &self.call.path.name);
        let shown = current.map(|value| self.registry.value_in(resource, value.clone()));
        if self.kind == APPLY {
            return self.apply(shown.as_ref());
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
        let mut object = incoming::accept(resource, parsed, self.validation, self.notes)?;
        self.registry.to_stored(resource, &mut object);
        Ok(Change::new(object))
    }

    fn apply(&self, live: Option<&Value>) -> Result<Change, Status> {
        let (resource, path) = (self.resource, &self.call.path);
        let name = path.name.as_str();
        if live.is_none() && !path.subresource.is_empty() {
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
        let applied = incoming::accept_partial(resource, parsed, self.validation, self.notes)?;
        let api_version = resource.api_version();
        let manager = Manager {
            name: &self.manager,
            operation: Operation::Apply,
            api_version: &api_version,
            subresource: &path.subresource,
            time: &self.registry.clock.now_rfc3339(),
        };
        let (force, reset) = (self.call.query.flag("force"), resource.reset_fields(&path.subresource));
        let merged = apply::apply(resource.schema(), live, &applied, &manager, force, reset)
            .map_err(|error| apply_error(&error))?;
        let mut object = incoming::complete(resource, merged)?;
        self.registry.to_stored(resource, &mut object);
        Ok(Change { tracked: true, ..Change::new(object) })
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
