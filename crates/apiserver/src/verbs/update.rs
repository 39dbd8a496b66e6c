//! `PUT /…/pods/web`

use super::{answer, read_object};
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::Change;
use crate::request::Sent;
use http::Response;
use pintle_meta::field::{Error, Path};
use pintle_meta::{Status, object};

pub async fn update(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let mut sent = read_object(&server.registry, call, sent, notes)?;
    let stored = server.registry.stored_resource(call.resource()?);
    let name = &call.path.name;
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
    let versioned = !object::resource_version(&sent).is_empty();
    if !versioned && !stored.strategy.updates_unconditionally() {
        let path = Path::new("metadata").child("resourceVersion");
        let error = Error::invalid(&path, 0, "must be specified for an update");
        return Err(Status::invalid(&stored.group, &stored.name, name, &[error]));
    }
    let creates = stored.strategy.creates_on_update() && call.path.subresource.is_empty();
    let change = |current: Option<&serde_json::Value>| match current {
        None if !creates => Err(Status::not_found(&stored.group, &stored.name, name)),
        None if versioned => Err(Status::modified(&stored.group, &stored.name, name)),
        _ => Ok(Change::new(sent.clone())),
    };
    let (written, created) = server.registry.update(call, notes, change).await?;
    answer(server, call, if created { 201 } else { 200 }, written).await
}
