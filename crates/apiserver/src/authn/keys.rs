//! The key pair that signs service account tokens, and its public half as other programs verify tokens with it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use x509_parser::prelude::parse_x509_pem;

/// The length of a coordinate of a P-256 point.
const COORDINATE_BYTES: usize = 32;

/// Why the signing key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key that signs service account tokens cannot be read: {0}")]
    Unreadable(#[from] jsonwebtoken::errors::Error),
    #[error("the key that signs service account tokens is not a P-256 key in PEM")]
    NotP256,
}

pub struct SigningKey {
    signing: EncodingKey,
    checking: DecodingKey,
    /// Names the key in each token and in the published set.
    id: String,
    x: String,
    y: String,
}

impl SigningKey {
    /// From the two halves of a P-256 key in PEM.
    pub fn new(private_pem: &str, public_pem: &str) -> Result<Self, KeyError> {
        let (_, block) = parse_x509_pem(public_pem.as_bytes()).map_err(|_| KeyError::NotP256)?;
        // The key in DER ends with its point: the mark of an uncompressed one, then both coordinates.
        let (_, point) = split_end(&block.contents, 2 * COORDINATE_BYTES + 1).ok_or(KeyError::NotP256)?;
        let [4, coordinates @ ..] = point else { return Err(KeyError::NotP256) };
        let (x, y) = coordinates.split_at(COORDINATE_BYTES);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &block.contents);
        Ok(SigningKey {
            signing: EncodingKey::from_ec_pem(private_pem.as_bytes())?,
            checking: DecodingKey::from_ec_pem(public_pem.as_bytes())?,
            id: BASE64_URL_SAFE_NO_PAD.encode(digest),
            x: BASE64_URL_SAFE_NO_PAD.encode(x),
            y: BASE64_URL_SAFE_NO_PAD.encode(y),
        })
    }

    pub fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        let header = Header { kid: Some(self.id.clone()), ..Header::new(Algorithm::ES256) };
        Ok(jsonwebtoken::encode(&header, claims, &self.signing)?)
    }

    /// The claims of a token that this key signed for this issuer. Their time and audience are the caller's to check.
    pub fn claims<T: DeserializeOwned + Clone>(&self, token: &str, issuer: &str) -> Option<T> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[issuer]);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Some(jsonwebtoken::decode::<T>(token, &self.checking, &validation).ok()?.claims)
    }

    /// `/openid/v1/jwks`.
    pub fn published(&self) -> Value {
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": self.x, "y": self.y}]})
    }
}

fn split_end(bytes: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(bytes.len().checked_sub(length)?)
}
