//! `pods/…/log`: what a container has written, as its node tells it.

use super::connect::{container, negotiate, pod, refusal, splice, to_node};
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::nodes::NodeAnswer;
use crate::request::{Query, Sent};
use crate::response;
use http::{HeaderValue, Response, header};
use pintle_meta::field::{Error, Path};
use pintle_meta::{Status, object, query};

pub async fn log(server: &ApiServer, call: &Call, mut sent: Sent) -> Result<Response<Body>, Status> {
    let name = &call.path.name;
    let options = options(&call.query, name)?;
    let pod = pod(server, call).await?;
    let container = container(&pod, call.query.get("container"))?;
    let node = object::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        // It has not run anywhere yet.
        return Ok(response::with_type(200, "text/plain", ""));
    }
    let path = format!("/containerLogs/{}/{name}/{container}", call.path.namespace);
    let pairs = options.iter().map(|(name, value)| (*name, value.as_str()));
    let mut request = to_node(&path, &query::encode(pairs))?;
    if sent.upgrade.is_some() {
        negotiate(call, &mut request);
    }
    let NodeAnswer { response: mut answer, connection } = server.ask_node(node, request).await?;
    if let (Some(connection), Some(upgrade)) = (connection, sent.upgrade.take()) {
        splice(server, upgrade, connection);
        return Ok(answer);
    }
    if !answer.status().is_success() {
        return Err(refusal(answer).await);
    }
    // What else a node's answer says is about the way from it to here.
    answer.headers_mut().clear();
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(answer)
}

/// The options for the node, or what is wrong with them.
fn options(query: &Query, name: &str) -> Result<Vec<(&'static str, String)>, Status> {
    let mut options = Vec::new();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) {
            options.push((flag, "true".to_owned()));
        }
    }
    let mut errors = Vec::new();
    for (option, least, why) in [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ] {
        let Some(number) = query.integer(option)? else { continue };
        if number < least {
            errors.push(Error::invalid(&Path::new(option), number, why));
        }
        options.push((option, number.to_string()));
    }
    let since = query.get("sinceTime");
    if !since.is_empty() {
        if since.parse::<jiff::Timestamp>().is_err() {
            return Err(Status::bad_request(format!("sinceTime: {since:?} is no time as in 2006-01-02T15:04:05Z")));
        }
        if query.has("sinceSeconds") {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(Error::forbidden(&Path::new(""), why));
        }
        options.push(("sinceTime", since.to_owned()));
    }
    let stream = query.get("stream");
    if !stream.is_empty() {
        if !matches!(stream, "All" | "Stdout" | "Stderr") {
            errors.push(Error::not_supported(&Path::new("stream"), stream, &["All", "Stderr", "Stdout"]));
        } else if stream != "All" && query.has("tailLines") {
            let why = "`tailLines` and specific `stream` are mutually exclusive for now";
            errors.push(Error::forbidden(&Path::new(""), why));
        }
        options.push(("stream", stream.to_owned()));
    }
    if errors.is_empty() { Ok(options) } else { Err(Status::invalid("", "PodLogOptions", name, &errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_refused_before_a_node_is_asked() {
        let code = |text: &str| options(&Query::parse(text), "web").map_err(|status| status.code);
        let fine = code("follow=true&tailLines=5&stream=All&container=c").unwrap();
        assert_eq!(fine, [("follow", "true"), ("tailLines", "5"), ("stream", "All")].map(|(n, v)| (n, v.to_owned())));
        for wrong in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            "stream=Both",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(code(wrong), Err(422), "{wrong}");
        }
        for unreadable in ["tailLines=x", "sinceTime=x"] {
            assert_eq!(code(unreadable), Err(400), "{unreadable}");
        }
    }
}
