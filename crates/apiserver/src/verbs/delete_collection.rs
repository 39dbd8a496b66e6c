//! `DELETE /…/pods`: each object that is selected, one by one.

use super::{delete, list};
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::{Error, names_of};
use crate::request::{ListOptions, Sent};
use crate::response;
use http::Response;
use pintle_meta::Status;
use serde_json::json;

pub async fn delete_collection(
    server: &ApiServer,
    call: &Call,
    sent: &Sent,
    notes: &Notes,
) -> Result<Response<Body>, Status> {
    let options = delete::options(call, sent)?;
    let selection = ListOptions::parse(&call.query)?;
    let listed = list::select(server, call, &selection).await?;
    let resource = call.resource()?;
    for entry in &listed.entries {
        let (namespace, name) = names_of(resource, &entry.key);
        match server.registry.delete(&call.of_object(namespace, name), notes, &options).await {
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let metadata = json!({"resourceVersion": listed.revision.to_string()});
    let bytes = list::encode(server, resource, list::Form::Objects, &listed.entries, &metadata)?;
    Ok(response::object(200, call.wanted()?, bytes))
}
