//! `POST /…/pods`

use super::{answer, read_object};
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::request::Sent;
use http::Response;
use pintle_meta::Status;

pub async fn create(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let written = server.registry.create(call, notes, || read_object(&server.registry, call, sent, notes)).await?;
    answer(server, call, 201, written).await
}
