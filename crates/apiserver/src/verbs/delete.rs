//! `DELETE /…/pods/web`

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::registry::DeleteOptions;
use crate::response;
use http::Response;
use pintle_meta::{Status, object};
use serde_json::json;

pub async fn delete(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let options = options(exchange)?;
    let stored = server.registry.stored_resource(&exchange.resource);
    let manager = exchange.manager()?;
    let name = exchange.path.name.clone();
    if options.propagation.is_none() {
        exchange.warnings.extend(stored.strategy.deletion_warning().map(str::to_owned));
    }
    let (written, gone) = server.registry.delete(&exchange.write(&stored, &manager)?, &name, &options).await?;
    if !gone || stored.strategy.returns_deleted() {
        return Ok(answer(server, exchange, 200, written));
    }
    let mut details = json!({"name": name, "kind": exchange.resource.name, "uid": object::uid(&written.to_value())});
    if !exchange.resource.group.is_empty() {
        details["group"] = exchange.resource.group.clone().into();
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Ok(response::value(200, exchange.wanted, &status))
}

/// From the body, else from the query; a body counts alone.
pub fn options(exchange: &Exchange) -> Result<DeleteOptions, Status> {
    if !exchange.body.is_empty() {
        let parsed = crate::incoming::read(&exchange.headers, &exchange.body, "DeleteOptions", false)?;
        let kind = object::kind(&parsed.value);
        if !kind.is_empty() && kind != "DeleteOptions" {
            let version = object::text(&parsed.value, &["apiVersion"]);
            let message = format!("decoded object cannot be converted to DeleteOptions: {version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
        let mut options = DeleteOptions::from_value(&parsed.value)?;
        options.dry_run |= exchange.query.dry_run()?;
        return Ok(options);
    }
    let mut options = DeleteOptions { dry_run: exchange.query.dry_run()?, ..DeleteOptions::default() };
    let grace = exchange.query.get("gracePeriodSeconds");
    if !grace.is_empty() {
        let parsed = grace
            .parse()
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {grace:?}: invalid syntax")))?;
        options.grace_period_seconds = Some(parsed);
    }
    options.set_propagation(exchange.query.get("propagationPolicy"))?;
    Ok(options)
}
