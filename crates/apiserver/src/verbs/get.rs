//! `GET /…/pods/web`: the stored bytes, as they are.

use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::response::{self, Shape};
use crate::{codec, table};
use http::Response;
use pintle_meta::Status;

pub async fn get(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let resource = &exchange.resource;
    let entry = server.registry.get(resource, exchange.namespace(), &exchange.path.name).await?;
    let bytes = server.registry.bytes_in(resource, &entry);
    Ok(match exchange.wanted.shape {
        Shape::Table => {
            let rows = [codec::decode(&bytes)];
            let about = serde_json::json!({"resourceVersion": entry.mod_revision.to_string()});
            response::value(200, exchange.wanted, &table::table(server, resource, &rows, &exchange.query, about))
        }
        Shape::PartialMetadata => response::object(200, exchange.wanted, table::partial_bytes(&bytes)),
        _ => response::object(200, exchange.wanted, bytes),
    })
}
