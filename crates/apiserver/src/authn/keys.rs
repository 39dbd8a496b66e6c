//! The keys of service account tokens: one signs, all verify. Their public halves are published, so that other programs can
//! verify tokens too.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PublicKeyData};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use x509_parser::prelude::{FromDer, Pem, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key that signs service account tokens cannot be read: {0}")]
    Private(String),
    #[error("tokens cannot be signed: {0}")]
    Signing(#[from] jsonwebtoken::errors::Error),
    #[error("a key that verifies service account tokens cannot be read: {0}")]
    Public(String),
    #[error("no key stands in the file")]
    None,
    #[error("keys of service account tokens are RSA, P-256 or P-384")]
    Unsupported,
}

/// Every key with which a token may be signed.
pub struct Keyring {
    signing: EncodingKey,
    /// The first is the one that signs.
    keys: Vec<PublicKey>,
}

/// What verifies.
pub struct PublicKey {
    /// Names the key in each token and in the published set.
    id: String,
    algorithm: Algorithm,
    checking: DecodingKey,
    /// As it is published.
    shown: Value,
}

impl Keyring {
    /// Signs with the private key (PEM: PKCS #8, PKCS #1 or SEC 1), verifies with its public half and with all others.
    pub fn new(private_pem: &str, others: Vec<PublicKey>) -> Result<Self, KeyError> {
        let (pair, own) = read_private(private_pem)?;
        let pem = pair.serialize_pem();
        let signing = match own.algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem.as_bytes())?,
            _ => EncodingKey::from_ec_pem(pem.as_bytes())?,
        };
        let others = others.into_iter().filter(|key| key.id != own.id).collect::<Vec<_>>();
        let mut keys = vec![own];
        for key in others {
            if keys.iter().all(|known| known.id != key.id) {
                keys.push(key);
            }
        }
        Ok(Keyring { signing, keys })
    }

    fn own(&self) -> Result<&PublicKey, KeyError> {
        self.keys.first().ok_or(KeyError::None)
    }

    pub fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        let own = self.own()?;
        let header = Header { kid: Some(own.id.clone()), ..Header::new(own.algorithm) };
        Ok(jsonwebtoken::encode(&header, claims, &self.signing)?)
    }

    /// The claims of a token that one of the keys signed. Issuer, time and audience are the caller's to check.
    pub fn claims<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let algorithm = jsonwebtoken::decode_header(token).ok()?.alg;
        let fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
        fitting.into_iter().find_map(|key| key.claims(token))
    }

    /// `/openid/v1/jwks`.
    pub fn published(&self) -> Value {
        json!({"keys": self.keys.iter().map(|key| &key.shown).collect::<Vec<_>>()})
    }

    /// The algorithms of all keys, for the discovery document.
    pub fn algorithms(&self) -> BTreeSet<&str> {
        self.keys.iter().filter_map(|key| key.shown["alg"].as_str()).collect()
    }
}

fn read_private(pem: &str) -> Result<(KeyPair, PublicKey), KeyError> {
    let pair = KeyPair::from_pem(pem).map_err(|error| KeyError::Private(error.to_string()))?;
    let public = PublicKey::of_der(&pair.subject_public_key_info())?;
    Ok((pair, public))
}

impl PublicKey {
    /// Every key of a PEM file: public keys, certificates, and the public halves of private keys.
    pub fn of_pem(text: &str) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for block in Pem::iter_from_buffer(text.as_bytes()) {
            let block = block.map_err(|error| KeyError::Public(error.to_string()))?;
            let key = match block.label.as_str() {
                "PUBLIC KEY" => PublicKey::of_der(&block.contents)?,
                "CERTIFICATE" => {
                    let (_, certificate) = X509Certificate::from_der(&block.contents)
                        .map_err(|error| KeyError::Public(error.to_string()))?;
                    PublicKey::of_der(certificate.public_key().raw)?
                }
                label if label.ends_with("PRIVATE KEY") => read_private(text)?.1,
                // As `openssl ecparam` writes it before the key.
                "EC PARAMETERS" => continue,
                other => return Err(KeyError::Public(format!("a block of type {other:?} is no key"))),
            };
            keys.push(key);
        }
        if keys.is_empty() { Err(KeyError::None) } else { Ok(keys) }
    }

    /// From a SubjectPublicKeyInfo.
    fn of_der(der: &[u8]) -> Result<Self, KeyError> {
        let unreadable = |error: String| KeyError::Public(error);
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|error| unreadable(error.to_string()))?;
        let parsed = info.parsed().map_err(|error| unreadable(error.to_string()))?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest);
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        match parsed {
            Parsed::RSA(key) => {
                let (modulus, exponent) = (without_zeros(key.modulus), without_zeros(key.exponent));
                let shown = json!({"use": "sig", "kty": "RSA", "kid": id, "alg": "RS256", "n": text(modulus),
                    "e": text(exponent)});
                let checking = DecodingKey::from_rsa_raw_components(modulus, exponent);
                Ok(PublicKey { id, algorithm: Algorithm::RS256, checking, shown })
            }
            Parsed::EC(point) => {
                // The mark of an uncompressed point, then both coordinates.
                let [4, coordinates @ ..] = point.data() else { return Err(KeyError::Unsupported) };
                let (algorithm, name, curve) = match coordinates.len() {
                    64 => (Algorithm::ES256, "ES256", "P-256"),
                    96 => (Algorithm::ES384, "ES384", "P-384"),
                    _ => return Err(KeyError::Unsupported),
                };
                let (x, y) = coordinates.split_at(coordinates.len() / 2);
                let shown = json!({"use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": name, "x": text(x),
                    "y": text(y)});
                let checking = DecodingKey::from_ec_components(&text(x), &text(y))?;
                Ok(PublicKey { id, algorithm, checking, shown })
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    fn claims<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let mut validation = Validation::new(self.algorithm);
        validation.set_required_spec_claims::<&str>(&[]);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Some(jsonwebtoken::decode::<T>(token, &self.checking, &validation).ok()?.claims)
    }
}

/// DER puts a zero before a number whose first bit is set.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize};

    fn pair(algorithm: Algorithm) -> KeyPair {
        match algorithm {
            Algorithm::RS256 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Algorithm::ES384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            _ => KeyPair::generate(),
        }
        .unwrap()
    }

    #[test]
    fn tokens_of_the_last_key_are_good_as_long_as_it_is_known_and_new_ones_are_of_the_new_key() {
        let claims = json!({"sub": "s"});
        for (old, new) in [
            (Algorithm::RS256, Algorithm::ES256),
            (Algorithm::ES256, Algorithm::ES384),
            (Algorithm::ES384, Algorithm::RS256),
            (Algorithm::ES256, Algorithm::ES256),
        ] {
            let (old, new) = (pair(old), pair(new));
            let before = Keyring::new(&old.serialize_pem(), Vec::new()).unwrap();
            let token = before.sign(&claims).unwrap();
            assert_eq!(before.claims::<Value>(&token), Some(claims.clone()));
            let both = PublicKey::of_pem(&(old.public_key_pem() + &new.public_key_pem())).unwrap();
            let after = Keyring::new(&new.serialize_pem(), both).unwrap();
            assert_eq!(after.claims::<Value>(&token), Some(claims.clone()));
            let fresh = after.sign(&claims).unwrap();
            assert_eq!(after.claims::<Value>(&fresh), Some(claims.clone()));
            assert_eq!(before.claims::<Value>(&fresh), None, "a key that is not known");
            assert_eq!(after.published()["keys"].as_array().map(Vec::len), Some(2), "each once");
            let forgotten = Keyring::new(&new.serialize_pem(), Vec::new()).unwrap();
            assert_eq!(forgotten.claims::<Value>(&token), None);
        }
    }

    #[test]
    fn another_program_verifies_a_token_with_what_is_published() {
        for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::ES384] {
            let keyring = Keyring::new(&pair(algorithm).serialize_pem(), Vec::new()).unwrap();
            let token = keyring.sign(&json!({"sub": "s"})).unwrap();
            let published: jsonwebtoken::jwk::JwkSet = serde_json::from_value(keyring.published()).unwrap();
            let header = jsonwebtoken::decode_header(&token).unwrap();
            let key = published.find(header.kid.as_deref().unwrap()).unwrap();
            let mut validation = Validation::new(algorithm);
            validation.set_required_spec_claims::<&str>(&[]);
            validation.validate_exp = false;
            let found = jsonwebtoken::decode::<Value>(&token, &DecodingKey::from_jwk(key).unwrap(), &validation);
            assert_eq!(found.unwrap().claims["sub"], "s");
        }
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        for text in ["", "-----BEGIN X-----\nAAAA\n-----END X-----\n", "no pem at all"] {
            assert!(PublicKey::of_pem(text).is_err(), "{text:?}");
        }
        assert!(Keyring::new("no key", Vec::new()).is_err());
    }
}
