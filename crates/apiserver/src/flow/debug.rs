//! `/debug/api_priority_and_fairness/…`: who sits and who waits, as lines that a spreadsheet reads.

use super::level::{Asked, Dump};
use crate::ApiServer;
use crate::body::Body;
use crate::request::Query;
use crate::response;
use http::Response;
use jiff::Timestamp;
use tokio::time::Instant;

pub fn answer(server: &ApiServer, what: &str, query: &Query) -> Option<Response<Body>> {
    let rows = match what {
        "dump_priority_levels" => levels(server),
        "dump_queues" => queues(server),
        "dump_requests" => requests(server, !query.get("includeRequestDetails").is_empty()),
        _ => return None,
    };
    let mut text = String::new();
    for row in rows {
        text += &row.join(",\t");
        text.push('\n');
    }
    Some(response::text(200, &text))
}

fn texts<const N: usize>(row: [&str; N]) -> Vec<String> {
    row.map(str::to_owned).to_vec()
}

fn levels(server: &ApiServer) -> Vec<Vec<String>> {
    let mut rows = vec![texts([
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ])];
    for level in server.flow.levels().list() {
        let row = |dump: &Dump<'_>| {
            let counts = dump.counts();
            let active = dump.queues().filter(|queue| !queue.waiting.is_empty()).count();
            vec![
                level.name.clone(),
                active.to_string(),
                dump.is_idle().to_string(),
                level.is_quiescing().to_string(),
                dump.waiting().to_string(),
                counts.seated.to_string(),
                counts.dispatched.to_string(),
                counts.rejected.to_string(),
                counts.timed_out.to_string(),
                counts.cancelled.to_string(),
            ]
        };
        rows.push(level.dump(row));
    }
    rows
}

fn queues(server: &ApiServer) -> Vec<Vec<String>> {
    let mut rows = vec![texts([
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
    ])];
    for level in server.flow.levels().list() {
        level.dump(|dump| {
            for queue in dump.queues() {
                rows.push(vec![
                    level.name.clone(),
                    queue.number.to_string(),
                    queue.waiting.len().to_string(),
                    queue.seated.to_string(),
                    queue.seats.to_string(),
                    format!("{:.8}ss", queue.clock),
                    queue.waiting.iter().map(|asked| asked.seats).sum::<u32>().to_string(),
                ]);
            }
        });
    }
    rows
}

fn requests(server: &ApiServer, details: bool) -> Vec<Vec<String>> {
    let mut header = texts([
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistinguisher",
        "ArriveTime",
        "InitialSeats",
    ]);
    if details {
        header.extend(texts([
            "UserName",
            "Verb",
            "APIPath",
            "Namespace",
            "Name",
            "APIVersion",
            "Resource",
            "SubResource",
        ]));
    }
    let mut rows = vec![header];
    let now = server.registry.clock.now();
    for level in server.flow.levels().list() {
        level.dump(|dump| {
            for queue in dump.queues() {
                let waiting = queue.waiting.iter().enumerate();
                rows.extend(
                    waiting.map(|(i, asked)| request(asked, queue.number.to_string(), i.to_string(), details, now)),
                );
            }
            rows.extend(dump.seated().map(|asked| request(asked, "-1".to_owned(), "-1".to_owned(), details, now)));
        });
    }
    rows
}

fn request(asked: &Asked, queue: String, index: String, details: bool, now: Timestamp) -> Vec<String> {
    let ago = Instant::now().saturating_duration_since(asked.arrived);
    let arrived = now.checked_sub(ago).unwrap_or(now);
    let mut row = vec![
        asked.flow.level.name.clone(),
        asked.flow.schema.name.clone(),
        queue,
        index,
        asked.flow.schema.flow(&asked.user, &asked.path.namespace).to_owned(),
        arrived.to_string(),
        asked.seats.to_string(),
    ];
    if details {
        let path = &asked.path;
        let version = match (path.group.as_str(), path.version.as_str()) {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        row.extend([
            asked.user.name.clone(),
            asked.verb.as_str().to_owned(),
            asked.url.clone(),
            path.namespace.clone(),
            path.name.clone(),
            version,
            path.resource.clone(),
            path.subresource.clone(),
        ]);
    }
    row
}
