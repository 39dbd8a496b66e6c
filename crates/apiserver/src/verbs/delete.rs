//! `DELETE /…/pods/web`

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::DeleteOptions;
use crate::request::Sent;
use crate::response;
use http::Response;
use pintle_meta::{Status, object};
use serde_json::json;

pub async fn delete(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let options = options(call, sent)?;
    let resource = call.resource()?;
    let stored = server.registry.stored_resource(resource);
    if let Some(sentence) = stored.strategy.deletion_warning().filter(|_| options.propagation.is_none()) {
        notes.warn(sentence);
    }
    let (written, gone) = server.registry.delete(call, notes, &options).await?;
    if !gone || stored.strategy.returns_deleted() {
        return answer(server, call, 200, written).await;
    }
    let uid = object::uid(&written.to_value()).to_owned();
    let mut details = json!({"name": call.path.name, "kind": resource.name, "uid": uid});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Ok(response::value(200, call.wanted()?, &status))
}

/// From the body, else from the query; a body counts alone.
pub fn options(call: &Call, sent: &Sent) -> Result<DeleteOptions, Status> {
    if !sent.body.is_empty() {
        let parsed = crate::incoming::read(&call.headers, &sent.body, "DeleteOptions", false)?;
        let kind = object::kind(&parsed.value);
        if !kind.is_empty() && kind != "DeleteOptions" {
            let version = object::text(&parsed.value, &["apiVersion"]);
            let message = format!("decoded object cannot be converted to DeleteOptions: {version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
        let mut options = DeleteOptions::from_value(&parsed.value)?;
        options.dry_run |= call.query.dry_run()?;
        return Ok(options);
    }
    let mut options = DeleteOptions { dry_run: call.query.dry_run()?, ..DeleteOptions::default() };
    let grace = call.query.get("gracePeriodSeconds");
    if !grace.is_empty() {
        let parsed = grace
            .parse()
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {grace:?}: invalid syntax")))?;
        options.grace_period_seconds = Some(parsed);
    }
    options.set_propagation(call.query.get("propagationPolicy"))?;
    Ok(options)
}
