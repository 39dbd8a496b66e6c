//! YAML: what the JSON says, for people.

use bytes::Bytes;
use pintle_meta::Status;
use serde_json::Value;

pub fn text(value: &Value) -> Result<Bytes, Status> {
    serde_saphyr::to_string(value).map(Bytes::from).map_err(|error| Status::internal(error.to_string()))
}
