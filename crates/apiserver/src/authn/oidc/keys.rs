//! The keys of an issuer: found by its discovery document, fetched when a token needs one that is not known.
//!
//! Tokens with made-up key ids cost the issuer at most one request per [`PAUSE`].

use crate::outbound::{Endpoint, EndpointError, Failure, Outbound};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use pintle_meta::{Clock, object};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Two fetches are at least this far apart.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// How long one request to the issuer may take.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Keys {
    outbound: Arc<Outbound>,
    issuer: String,
    discovery: Endpoint,
    clock: Clock,
    current: ArcSwapOption<Fetched>,
    /// When keys were last asked for, whatever came of it. Held while they are.
    asked: Mutex<Option<Timestamp>>,
}

struct Fetched {
    /// Where they are from.
    place: Endpoint,
    keys: Vec<Jwk>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("oidc: malformed jwt")]
    Malformed,
    #[error("oidc: id token signed with unsupported algorithm, expected {expected:?} got {found:?}")]
    Algorithm { expected: Vec<Algorithm>, found: Algorithm },
    #[error("failed to verify signature: failed to verify id token signature")]
    Signature,
    #[error("fetching keys {0}")]
    Transport(#[from] Failure),
    #[error("fetching keys oidc: {0}")]
    Answer(String),
    #[error("fetching keys {0}")]
    Place(#[from] EndpointError),
}

impl Keys {
    pub(super) fn new(outbound: Arc<Outbound>, issuer: String, discovery: Endpoint, clock: Clock) -> Self {
        Keys { outbound, issuer, discovery, clock, current: ArcSwapOption::empty(), asked: Mutex::default() }
    }

    /// The claims of a token that one of the issuer's keys signed.
    pub(super) async fn verified(&self, token: &str, allowed: &[Algorithm]) -> Result<Map<String, Value>, KeysError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| KeysError::Malformed)?;
        if !allowed.contains(&header.alg) {
            return Err(KeysError::Algorithm { expected: allowed.to_vec(), found: header.alg });
        }
        let known = self.current.load_full();
        if let Some(claims) = known.as_ref().and_then(|known| known.claims(token, header.kid.as_deref(), header.alg)) {
            return Ok(claims);
        }
        let fetched = self.fetch(known.as_ref()).await?;
        fetched.claims(token, header.kid.as_deref(), header.alg).ok_or(KeysError::Signature)
    }

    /// The newest keys. Those who wait for a fetch get what it found.
    async fn fetch(&self, known: Option<&Arc<Fetched>>) -> Result<Arc<Fetched>, KeysError> {
        let mut asked = self.asked.lock().await;
        let current = self.current.load_full();
        let is_newer = match (&current, known) {
            (Some(current), Some(known)) => !Arc::ptr_eq(current, known),
            (current, _) => current.is_some(),
        };
        let now = self.clock.now();
        let is_soon = asked.is_some_and(|asked| now.duration_since(asked) < PAUSE);
        match current {
            Some(current) if is_newer || is_soon => return Ok(current),
            None if is_soon => return Err(KeysError::Answer("authenticator not initialized".to_owned())),
            _ => {}
        }
        // Counts also if the one who waits leaves.
        *asked = Some(now);
        let place = match known {
            Some(known) => known.place.clone(),
            None => self.discover().await?,
        };
        let answer = self.get(&place).await?;
        let keys = object::list(&answer, &["keys"]).iter().filter_map(|key| serde_json::from_value(key.clone()).ok());
        let keys = keys.filter(|key: &Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption)));
        let fetched = Arc::new(Fetched { place, keys: keys.collect() });
        self.current.store(Some(fetched.clone()));
        Ok(fetched)
    }

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<Endpoint, KeysError> {
        let document = self.get(&self.discovery).await?;
        let issuer = object::text(&document, &["issuer"]);
        if issuer != self.issuer {
            let why = "issuer did not match the issuer returned by provider";
            return Err(KeysError::Answer(format!("{why}, expected {:?} got {issuer:?}", self.issuer)));
        }
        let place = object::text(&document, &["jwks_uri"]);
        if place.is_empty() {
            return Err(KeysError::Answer("provider did not return JWKS URL".to_owned()));
        }
        Ok(Endpoint::of_url(place, self.discovery.to.trust.clone())?)
    }

    async fn get(&self, place: &Endpoint) -> Result<Value, KeysError> {
        let request = Request::get(place.path.as_str()).header(header::ACCEPT, "application/json").body(Bytes::new());
        let request = request.map_err(|error| KeysError::Answer(error.to_string()))?;
        let answer = self.outbound.ask_address(&place.to, request, LIMIT).await?;
        if answer.status() != StatusCode::OK {
            return Err(KeysError::Answer(format!("{} answered {}", place.url(), answer.status())));
        }
        let unreadable = |error| KeysError::Answer(format!("{} did not answer with JSON: {error}", place.url()));
        serde_json::from_slice(answer.body()).map_err(unreadable)
    }
}

impl Fetched {
    /// Keys that name themselves otherwise than the token says are not tried.
    fn claims(&self, token: &str, id: Option<&str>, algorithm: Algorithm) -> Option<Map<String, Value>> {
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims::<&str>(&[]);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        let named = |key: &&Jwk| id.is_none() || key.common.key_id.as_deref() == id;
        self.keys.iter().filter(named).find_map(|key| {
            let key = DecodingKey::from_jwk(key).ok()?;
            Some(jsonwebtoken::decode(token, &key, &validation).ok()?.claims)
        })
    }
}
