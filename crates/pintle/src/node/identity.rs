//! The certificates of a node: one that it shows to the API server, one that it serves under; asked for, kept, renewed.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use pintle_apiserver::pki::{self, Identity, PkiError, write_private};
use pintle_meta::{Clock, Random};

const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// After a request that came to nothing.
const PAUSE: Duration = Duration::from_secs(30);

/// Whoever approves has this long; a person may be asked.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

const GROUP: &str = "system:nodes";

/// Where the key begins in a file that has both.
const KEY: &str = "-----BEGIN PRIVATE KEY";

#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("{0}")]
    Pki(#[from] PkiError),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("the request {name} was refused: {why}")]
    Refused { name: String, why: String },
    #[error(
        "the request {0} was not granted within 15 minutes; look at it with `kubectl get csr` and approve it with `kubectl certificate approve`"
    )]
    Late(String),
}

/// What a certificate is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// To be known to the API server.
    Client,
    /// To be known by those who ask the node, under these addresses.
    Serving(Vec<IpAddr>),
}

/// One of a node's certificates.
pub(super) struct Certificate {
    pub(super) node: String,
    pub(super) purpose: Purpose,
    /// Where it is kept.
    pub(super) directory: PathBuf,
    /// For how long it is asked for; as long as the server gives if nobody says.
    pub(super) life: Option<Duration>,
}

impl Certificate {
    /// The one that is kept, if it still holds.
    pub(super) fn kept(&self, now: Timestamp) -> Option<Identity> {
        let text = std::fs::read_to_string(self.file()).ok()?;
        let (certificate, key) = text.split_at_checked(text.find(KEY)?)?;
        let (_, ends) = pki::validity(certificate).ok()?;
        (now < ends).then(|| Identity { certificate_pem: certificate.to_owned(), key_pem: key.to_owned() })
    }

    /// Asks for a new one, waits until it is granted, and keeps it.
    pub(super) async fn request(&self, client: &Client) -> Result<Identity, CertificateError> {
        let (names, addresses) = match &self.purpose {
            Purpose::Client => (Vec::new(), Vec::new()),
            Purpose::Serving(addresses) => (vec![self.node.clone()], addresses.clone()),
        };
        let asked = pki::ask(&format!("system:node:{}", self.node), GROUP, &names, &addresses)?;
        let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
        let made = requests.create(&PostParams::default(), &self.to_send(asked.pem)).await?;
        let name = made.metadata.name.unwrap_or_default();
        let granted = tokio::time::timeout(PATIENCE, wait(&requests, &name)).await;
        let certificate_pem = granted.map_err(|_| CertificateError::Late(name))??;
        let identity = Identity { certificate_pem, key_pem: asked.key_pem };
        self.keep(&identity)?;
        Ok(identity)
    }

    /// In one file that takes the other's place: a certificate is never seen with another's key.
    fn keep(&self, identity: &Identity) -> Result<(), PkiError> {
        let (file, fresh) = (self.file(), self.file().with_extension("new"));
        write_private(&fresh, &format!("{}{}", identity.certificate_pem, identity.key_pem))?;
        std::fs::rename(&fresh, &file).map_err(|source| PkiError::File { path: file, source })
    }

    /// Asks for the next one whenever most of the life of the last one has passed. Runs until dropped.
    pub(super) async fn renew(
        &self,
        client: &Client,
        mut current: Option<Identity>,
        (clock, random): (&Clock, &Random),
        mut changed: impl FnMut(&Identity),
    ) {
        loop {
            if let Some((starts, ends)) = current.as_ref().and_then(|held| pki::validity(&held.certificate_pem).ok()) {
                let due = due(starts, ends, random.below(1000));
                // Timers count no time that the machine sleeps: the clock is looked at again.
                while clock.now() < due {
                    let left = Duration::try_from(due.duration_since(clock.now())).unwrap_or_default();
                    tokio::time::sleep(left.min(PAUSE * 2)).await;
                }
            }
            match self.request(client).await {
                Ok(identity) => {
                    tracing::info!(node = %self.node, purpose = ?self.purpose, "a new certificate");
                    changed(&identity);
                    current = Some(identity);
                }
                Err(error) => {
                    tracing::warn!(node = %self.node, purpose = ?self.purpose, %error, "no new certificate yet");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn to_send(&self, request: String) -> CertificateSigningRequest {
        let (signer, usage) = match self.purpose {
            Purpose::Client => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
            Purpose::Serving(_) => ("kubernetes.io/kubelet-serving", "server auth"),
        };
        let seconds = self.life.map(|life| i32::try_from(life.as_secs()).unwrap_or(i32::MAX));
        CertificateSigningRequest {
            metadata: ObjectMeta { generate_name: Some("node-csr-".to_owned()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.into_bytes()),
                signer_name: signer.to_owned(),
                usages: Some(vec!["digital signature".to_owned(), usage.to_owned()]),
                expiration_seconds: seconds,
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(match self.purpose {
            Purpose::Client => "client.pem",
            Purpose::Serving(_) => "serving.pem",
        })
    }
}

async fn wait(requests: &Api<CertificateSigningRequest>, name: &str) -> Result<String, CertificateError> {
    loop {
        let status = requests.get(name).await?.status.unwrap_or_default();
        if let Some(bytes) = status.certificate.filter(|bytes| !bytes.0.is_empty()) {
            return Ok(String::from_utf8_lossy(&bytes.0).into_owned());
        }
        let ended = status.conditions.into_iter().flatten().find(|c| c.type_ == "Denied" || c.type_ == "Failed");
        if let Some(condition) = ended {
            let why = condition.message.or(condition.reason).unwrap_or(condition.type_);
            return Err(CertificateError::Refused { name: name.to_owned(), why });
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Between seven and nine tenths of a certificate's life; `chance` is below 1000. Nodes that joined together must not ask
/// together.
fn due(starts: Timestamp, ends: Timestamp, chance: u64) -> Timestamp {
    let part = 700 + i32::try_from(chance / 5).unwrap_or(0);
    let life = ends.duration_since(starts);
    let passed = life.checked_div(1000).and_then(|part_of| part_of.checked_mul(part)).unwrap_or(SignedDuration::ZERO);
    starts.checked_add(passed).unwrap_or(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_before_it_ends_and_not_by_all_at_once() {
        let (starts, ends) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1000).unwrap());
        assert_eq!(due(starts, ends, 0).as_second(), 700);
        assert_eq!(due(starts, ends, 500).as_second(), 800);
        assert_eq!(due(starts, ends, 999).as_second(), 899);
    }

    #[test]
    fn what_has_expired_or_lost_its_key_is_asked_for_again() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Certificate {
            node: "a".to_owned(),
            purpose: Purpose::Client,
            directory: directory.path().to_owned(),
            life: None,
        };
        let now = Clock::system().now();
        assert!(certificate.kept(now).is_none());
        let identity = pki::Pki::generate(now).unwrap().client("system:node:a", GROUP, now).unwrap();
        write_private(&certificate.file(), &identity.certificate_pem).unwrap();
        assert!(certificate.kept(now).is_none(), "it has no key");
        certificate.keep(&identity).unwrap();
        let kept = certificate.kept(now).unwrap();
        assert_eq!((&kept.certificate_pem, &kept.key_pem), (&identity.certificate_pem, &identity.key_pem));
        assert!(certificate.kept(now + SignedDuration::from_hours(24 * 400)).is_none());
    }
}
