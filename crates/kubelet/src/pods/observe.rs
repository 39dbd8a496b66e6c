//! What the runtime has of a Pod.

use pintle_runtime::Error;

use super::Seat;
use crate::plan::World;

pub(super) async fn observe(seat: &Seat) -> Result<World, Error> {
    let runtime = &seat.home.runtime;
    let sandboxes = runtime.list_sandboxes(Some(&seat.uid)).await.map_err(failed)?;
    let containers = runtime.list_containers(Some(&seat.uid)).await.map_err(failed)?;
    Ok(World { sandboxes, containers })
}

pub(super) fn failed(error: pintle_container::Error) -> Error {
    Error::Invalid(error.to_string())
}
