//! `GET /…/pods?watch=1`: every change, in order, until one side has enough.

use super::list;
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::registry::reach;
use crate::request::{ListOptions, ReadAt};
use crate::response;
use crate::watches::{Feed, Start, Terms, View, interest};
use http::Response;
use pintle_meta::Status;
use pintle_meta::field::{Error, Path};
use std::time::Duration;
use tokio::time::Instant;

/// A watch without a timeout ends between this and twice this, so that not all clients come back at once.
const SHORTEST_DEFAULT: u64 = 1800;

pub async fn watch(server: &ApiServer, call: &Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query)?;
    if call.query.has("sendInitialEvents") && !server.gates.watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        let error = Error::forbidden(&Path::new("sendInitialEvents"), why);
        return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]));
    }
    let (resource, wanted) = (call.resource()?, call.wanted()?);
    list::check_fields(resource, &options)?;
    let asked = options.resource_version.unwrap_or(0);
    reach(&*server.registry.store, asked).await?;
    let mut initial = None;
    // Without a version the watch starts with all that is there; with one, right behind it.
    let after = if options.initial_events || asked == 0 {
        let snapshot = ListOptions { limit: 0, cursor: String::new(), at: ReadAt::Latest, ..options.clone() };
        let send = options.initial_events || !call.query.has("sendInitialEvents");
        let listed = list::select(server, call, &snapshot).await?;
        initial = if send { Some(server.registry.entries_in(resource, listed.entries).await?) } else { None };
        listed.revision
    } else {
        asked
    };
    let start = Start { initial, marks_end: options.initial_events && options.bookmarks, after };
    let timeout =
        options.timeout_seconds.unwrap_or_else(|| SHORTEST_DEFAULT + server.registry.random.below(SHORTEST_DEFAULT));
    let terms = Terms { bookmarks: options.bookmarks, deadline: Instant::now() + Duration::from_secs(timeout) };
    let topic = (resource.scope(call.namespace()), interest(resource, call.namespace(), &options.fields));
    let shown = (wanted, &call.query);
    let view = View::new(server, resource, shown, (options.labels, options.fields));
    response::watch(wanted.notation, Feed::open(server, view, topic, terms, start))
}
