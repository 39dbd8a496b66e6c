//! A program as a `clientConfig` names it: by URL or by Service, with the authority of its certificate.

use super::endpoint::Login;
use super::post::{Post, Unsent};
use super::review::words;
use super::{Credentials, Destination, Failure, Place, Trust};
use crate::parse;
use crate::registry::Registry;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Response, Uri, header};
use pintle_meta::object;
use serde_json::Value;
use std::sync::OnceLock;
use std::time::Duration;

const DEFAULT_PORT: u16 = 443;
const AGENT: &str = concat!("kube-apiserver-admission/", env!("CARGO_PKG_VERSION"));

/// As much of an answer that is no answer as is shown.
const MAX_SHOWN_BYTES: usize = 2048;

pub struct Client {
    /// Scheme, host and port, as they are shown.
    base: String,
    path: String,
    place: Result<Place, String>,
    bundle: Vec<u8>,
    destination: OnceLock<Result<Destination, String>>,
}

/// Why there is no answer to use.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("could not get REST client: {0}")]
    Configuration(String),
    /// In the words of Kubernetes' clients.
    #[error("{0}")]
    Call(String),
}

impl Client {
    pub fn read(config: &Value) -> Self {
        let (base, path, place) = address(config);
        let bundle = STANDARD.decode(object::text(config, &["caBundle"])).unwrap_or_default();
        Client { base, path, place, bundle, destination: OnceLock::new() }
    }

    /// Made when it is first called: what a program is shown does not change while the server runs.
    fn destination(&self, credentials: &Credentials) -> Result<&Destination, String> {
        let made = self.destination.get_or_init(|| {
            let place = self.place.clone()?;
            let identity = credentials.of_place(&place).and_then(|shown| shown.identity.as_ref());
            let trust = Trust::of_bundle(&self.bundle, identity).map_err(|error| error.to_string())?;
            Ok(Destination { place, trust })
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// The Service that answers, as namespace and name.
    pub fn service(&self) -> Option<(&str, &str)> {
        match &self.place {
            Ok(Place::Service { namespace, name, .. }) => Some((namespace, name)),
            _ => None,
        }
    }

    /// Sends a JSON body and reads the body of the answer. `query` begins with a question mark, if there is one.
    pub async fn post(
        &self,
        registry: &Registry,
        credentials: &Credentials,
        query: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Bytes, Unanswered> {
        let destination = self.destination(credentials).map_err(Unanswered::Configuration)?;
        let path = format!("{}{query}", self.path);
        let login = credentials.of_place(&destination.place).map_or(&Login::Nothing, |shown| &shown.login);
        let post = Post { to: destination, path: &path, agent: AGENT, login, limit };
        let asked = post.send(&registry.outbound, Some(registry), body).await;
        let response = asked.map_err(|unsent| match unsent {
            Unsent::Malformed(error) => Unanswered::Call(error.to_string()),
            Unsent::TokenFile { path, why } => Unanswered::Configuration(format!("{path}: {why}")),
            Unsent::Transport(failure @ Failure::TooLarge) => Unanswered::Call(failure.to_string()),
            Unsent::Transport(failure) => Unanswered::Call(format!("Post \"{}{path}\": {failure}", self.base)),
        })?;
        unless_error(response).map_err(Unanswered::Call)
    }
}

/// What is shown of an address, its path, and the place itself.
fn address(client: &Value) -> (String, String, Result<Place, String>) {
    let service = &client["service"];
    if service.is_object() {
        let text = |key: &str| object::text(service, &[key]).to_owned();
        let port = object::integer(service, &["port"]).and_then(|port| u16::try_from(port).ok());
        let place =
            Place::Service { namespace: text("namespace"), name: text("name"), port: port.unwrap_or(DEFAULT_PORT) };
        return (format!("https://{}", place.authority()), clean(&text("path")), Ok(place));
    }
    let url = object::text(client, &["url"]);
    let parsed: Result<Uri, _> = url.parse();
    let uri = match parsed {
        Ok(uri) => uri,
        Err(error) => return (url.to_owned(), String::new(), Err(format!("Unparsable URL: {error}"))),
    };
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let place = match host.is_empty() {
        true => Err("webhook configuration must have either service or URL".to_owned()),
        false => Ok(Place::Address { host, port: uri.port_u16().unwrap_or(DEFAULT_PORT) }),
    };
    (format!("https://{authority}"), clean(uri.path()), place)
}

/// The shortest path of the same meaning, with a slash in front and none behind.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The body of an answer that is none of HTTP's errors.
fn unless_error(response: Response<Bytes>) -> Result<Bytes, String> {
    let (head, body) = response.into_parts();
    let media = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if head.status.is_success() {
        if body.is_empty() {
            let code = head.status.as_u16();
            return Err(format!("0-length response with status code: {code} and content type: {media}"));
        }
        return Ok(body);
    }
    if let Some(message) = told(&body) {
        return Err(message);
    }
    let shown = &body[..body.len().min(MAX_SHOWN_BYTES)];
    let is_text = media.is_empty() || media.starts_with("text/");
    let shown = if is_text { String::from_utf8_lossy(shown).trim().to_owned() } else { "unknown".to_owned() };
    Err(match head.status {
        status if status.is_redirection() => {
            format!("the server answered with a redirect ({}), which is not followed", status.as_u16())
        }
        status => words(status, &shown),
    })
}

/// The message of a body that is a Status.
fn told(body: &[u8]) -> Option<String> {
    let status = parse::json(body).ok()?.value;
    let is_failure = object::kind(&status) == "Status" && object::text(&status, &["status"]) != "Success";
    is_failure.then(|| object::text(&status, &["message"]).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_is_shown_as_it_was_written_and_called_where_it_leads() {
        let at = |host: &str, port| Ok(Place::Address { host: host.to_owned(), port });
        for (client, base, path, place) in [
            (json!({"url": "https://127.0.0.1:8443/"}), "https://127.0.0.1:8443", "/", at("127.0.0.1", 8443)),
            (
                json!({"url": "https://hooks.example.com/a//b/"}),
                "https://hooks.example.com",
                "/a/b",
                at("hooks.example.com", 443),
            ),
            (json!({"url": "https://[::1]:1/x"}), "https://[::1]:1", "/x", at("::1", 1)),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/p"}}),
                "https://s.n.svc:443",
                "/p",
                Ok(Place::Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 }),
            ),
        ] {
            assert_eq!(address(&client), (base.to_owned(), path.to_owned(), place), "{client}");
        }
    }

    #[test]
    fn an_error_of_http_is_told_in_known_words() {
        let told = |code: u16, media: &str, body: &'static str| {
            let response = Response::builder().status(code).header("content-type", media);
            unless_error(response.body(Bytes::from_static(body.as_bytes())).unwrap()).map(|body| body.len())
        };
        assert_eq!(told(200, "application/json", "{}"), Ok(2));
        let empty = "0-length response with status code: 200 and content type: application/json";
        assert_eq!(told(200, "application/json", ""), Err(empty.to_owned()));
        let broke = "an error on the server (\"it broke\") has prevented the request from succeeding";
        assert_eq!(told(500, "text/plain", "it broke\n"), Err(broke.to_owned()));
        let unknown = "an error on the server (\"unknown\") has prevented the request from succeeding";
        assert_eq!(told(500, "application/json", "it broke"), Err(unknown.to_owned()));
        let missing = "the server could not find the requested resource";
        assert_eq!(told(404, "application/json", "not here"), Err(missing.to_owned()));
        let status = r#"{"kind": "Status", "status": "Failure", "message": "its own words"}"#;
        assert_eq!(told(403, "application/json", status), Err("its own words".to_owned()));
        assert!(told(302, "text/html", "").unwrap_err().contains("not followed"));
    }
}
