//! `GET /…/pods/web`: the stored bytes, as they are.

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::response::{self, Shape};
use crate::{codec, table};
use http::Response;
use pintle_meta::Status;

pub async fn get(server: &ApiServer, call: &Call) -> Result<Response<Body>, Status> {
    let (resource, wanted) = (call.resource()?, call.wanted()?);
    let entry = server.registry.get(resource, call.namespace(), &call.path.name).await?;
    let entry = server.registry.entry_in(resource, entry).await?;
    let bytes = server.registry.bytes_in(resource, &entry);
    Ok(match wanted.shape {
        Shape::Table => {
            let rows = [codec::decode(&bytes)];
            let about = serde_json::json!({"resourceVersion": entry.mod_revision.to_string()});
            response::value(200, wanted, &table::table(server, resource, &rows, &call.query, about))
        }
        Shape::PartialMetadata => response::object(200, wanted, table::partial_bytes(&bytes)),
        _ => response::object(200, wanted, bytes),
    })
}
