//! `DELETE /…/pods`: each object that is selected, one by one.

use super::{delete, list};
use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::registry::names_of;
use crate::request::ListOptions;
use crate::response;
use http::Response;
use pintle_meta::Status;
use serde_json::json;

pub async fn delete_collection(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let options = delete::options(exchange)?;
    let selection = ListOptions::parse(&exchange.query)?;
    let listed = list::select(server, exchange, &selection).await?;
    let stored = server.registry.stored_resource(&exchange.resource);
    let manager = exchange.manager()?;
    for entry in &listed.entries {
        let (namespace, name) = names_of(&stored, &entry.key);
        let mut write = exchange.write(&stored, &manager)?;
        write.namespace = namespace;
        match server.registry.delete(&write, name, &options).await {
            Err(status) if status.code != 404 => return Err(status),
            _ => {}
        }
    }
    let metadata = json!({"resourceVersion": listed.revision.to_string()});
    let bytes = list::encode(server, &exchange.resource, list::Form::Objects, &listed.entries, &metadata)?;
    Ok(response::object(200, exchange.wanted, bytes))
}
