//! `POST /…/pods`

use super::answer;
use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use http::Response;
use pintle_meta::Status;

pub async fn create(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let object = exchange.object(&server.registry)?;
    let stored = server.registry.stored_resource(&exchange.resource);
    let manager = exchange.manager()?;
    let mut warnings = std::mem::take(&mut exchange.warnings);
    let written = server.registry.create(&exchange.write(&stored, &manager)?, object, &mut warnings).await;
    exchange.warnings = warnings;
    Ok(answer(server, exchange, 201, written?))
}
