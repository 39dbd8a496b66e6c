//! `GET /debug/pintle/causes`: the kept writes, newest first, or with `chain=true` the way to one object.
//!
//! A plain path: who may not `get` it hears the same answer whatever exists. Only administrators may, unless a role says
//! otherwise.

use super::ring::LONGEST;
use super::walk::{Wanted, walk};
use crate::ApiServer;
use crate::body::Body;
use crate::request::Query;
use crate::response;
use http::Response;
use pintle_meta::{Status, clock};
use serde_json::{Value, json};

const DEFAULT_LIMIT: usize = 100;

pub fn answer(server: &ApiServer, query: &Query) -> Response<Body> {
    match causes(server, query) {
        Ok(value) => response::json(200, value.to_string()),
        Err(status) => response::failure(&status),
    }
}

fn causes(server: &ApiServer, query: &Query) -> Result<Value, Status> {
    let text = |key: &str| query.get(key).to_owned();
    let wanted = Wanted {
        group: query.has("group").then(|| text("group")),
        kind: text("kind"),
        resource: text("resource"),
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        trace: text("trace"),
    };
    let limit = match query.get("limit") {
        "" => DEFAULT_LIMIT,
        said => said.parse().map_err(|_| Status::bad_request(format!("limit: {said:?} is not a number")))?,
    };
    let records = server.registry.causes.records(server.registry.clock.now());
    let oldest = records.first().map(|record| clock::rfc3339_micro(record.time));
    let kept = json!({"entries": records.len(), "seconds": LONGEST.as_secs(), "oldest": oldest});
    if !query.flag("chain") {
        let newest = records.iter().rev().filter(|record| wanted.matches(record)).take(limit);
        let entries: Vec<Value> = newest.map(|record| record.to_value()).collect();
        return Ok(json!({"kind": "CauseList", "kept": kept, "entries": entries}));
    }
    let of_some_kind = !wanted.kind.is_empty() || !wanted.resource.is_empty();
    if wanted.uid.is_empty() && (wanted.name.is_empty() || !of_some_kind) {
        return Err(Status::bad_request("chain=true needs the object: uid, or name with kind or resource"));
    }
    let chain = walk(&records, &wanted);
    let steps: Vec<Value> = chain
        .steps
        .iter()
        .map(|step| {
            let mut shown = step.record.to_value();
            shown["depth"] = step.depth.into();
            if step.folded > 0 {
                shown["folded"] = step.folded.into();
            }
            shown
        })
        .collect();
    Ok(json!({"kind": "CauseChain", "kept": kept, "cut": chain.cut, "steps": steps}))
}
