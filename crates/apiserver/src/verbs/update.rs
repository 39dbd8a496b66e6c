//! `PUT /…/pods/web`

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::registry::Change;
use http::Response;
use pintle_meta::{Status, object};

pub async fn update(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let mut sent = exchange.object(&server.registry)?;
    let stored = server.registry.stored_resource(&exchange.resource);
    let name = exchange.path.name.clone();
    match object::name(&sent) {
        "" => {
            object::metadata(&mut sent).insert("name".into(), name.clone().into());
        }
        said if said != name => {
            return Err(Status::bad_request(format!(
                "the name of the object ({said}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    if object::resource_version(&sent).is_empty() && !stored.strategy.updates_unconditionally() {
        let path = pintle_meta::field::Path::new("metadata").child("resourceVersion");
        let error = pintle_meta::field::Error::invalid(&path, 0, "must be specified for an update");
        return Err(Status::invalid(&stored.group, &stored.name, &name, &[error]));
    }
    let manager = exchange.manager()?;
    let mut warnings = std::mem::take(&mut exchange.warnings);
    let write = exchange.write(&stored, &manager)?;
    let result = server
        .registry
        .update(&write, &name, &mut warnings, |current| {
            if current.is_none() && (!stored.strategy.creates_on_update() || !write.subresource.is_empty()) {
                return Err(Status::not_found(&stored.group, &stored.name, &name));
            }
            if current.is_none() && !object::resource_version(&sent).is_empty() {
                return Err(Status::modified(&stored.group, &stored.name, &name));
            }
            Ok(Change::new(sent.clone()))
        })
        .await;
    exchange.warnings = warnings;
    let (written, created) = result?;
    Ok(answer(server, exchange, if created { 201 } else { 200 }, written))
}
