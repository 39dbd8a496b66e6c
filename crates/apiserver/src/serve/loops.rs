//! `GET /debug/pintle/loops`: what the loops of this process have to do and what goes wrong in them, and who never rests.
//!
//! The loops are told by the program that runs them ([`ApiServer::set_loops`]); who writes one object without end is known here,
//! also of programs elsewhere.

use crate::ApiServer;
use crate::body::Body;
use crate::response;
use http::Response;
use serde_json::{Value, json};

/// What is asked for the loops' own account: a list of objects, one for each loop.
pub type Loops = dyn Fn() -> Value + Send + Sync;

pub fn answer(server: &ApiServer) -> Response<Body> {
    let loops = server.loops().unwrap_or_else(|| json!([]));
    let hot = server.registry.causes.hot(server.registry.clock.now());
    response::json(200, json!({"kind": "LoopList", "loops": loops, "hot": hot}).to_string())
}
