//! The cluster's own certificate authority: made at the first start, kept with 0600, signs the server's and the
//! administrator's certificates at every start.

mod ask;
mod changing;
mod front_proxy;
mod request;

pub use ask::{Request, ask, validity};
pub use changing::Changing;
pub use front_proxy::{FRONT_PROXY_CLIENT, FrontProxy};
pub use request::{Terms, public_key_hash};

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use pintle_meta::network::KUBERNETES_ADDRESS;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The authority's certificate and key, and the key of service account tokens.
const FILES: [&str; 3] = ["ca.crt", "ca.key", "sa.key"];

const AUTHORITY_YEARS: i16 = 10;
/// The user as which the server asks nodes.
pub const NODE_CLIENT: &str = "kube-apiserver-kubelet-client";
const CLIENT_YEARS: i16 = 1;

/// The authority and the key that signs tokens.
pub struct Pki {
    pub ca_pem: String,
    ca_key_pem: String,
    pub token_key: TokenKey,
    /// Names and addresses of the API server's own certificate, which nobody else gets one for.
    own: Mutex<BTreeSet<String>>,
}

/// The API server's names inside the cluster, and on its own machine.
const SERVER_NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// The two halves of a key as PEM.
#[derive(Clone)]
pub struct TokenKey {
    pub private_pem: String,
    pub public_pem: String,
}

/// A certificate and its key as PEM.
pub struct Identity {
    pub certificate_pem: String,
    pub key_pem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "certificates cannot be made: {0}; if files in the pki directory were changed by hand, restore them or remove the directory to get a new authority"
    )]
    Certificate(#[from] rcgen::Error),
    #[error("the request cannot be signed: {0}")]
    Request(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl TokenKey {
    pub fn generate() -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        Ok(TokenKey { private_pem: key.serialize_pem(), public_pem: key.public_key_pem() })
    }

    fn from_private(private_pem: String) -> Result<Self, PkiError> {
        let public_pem = KeyPair::from_pem(&private_pem)?.public_key_pem();
        Ok(TokenKey { private_pem, public_pem })
    }
}

impl Pki {
    /// An authority that lives only in memory.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = valid_for(CertificateParams::default(), now, AUTHORITY_YEARS);
        params.distinguished_name.push(DnType::CommonName, "pintle-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let ca = params.self_signed(&key)?;
        Ok(Pki::of(&ca.pem(), &key.serialize_pem(), TokenKey::generate()?))
    }

    /// One that somebody else has made.
    pub fn of(ca_pem: &str, ca_key_pem: &str, token_key: TokenKey) -> Self {
        let own = SERVER_NAMES.map(str::to_owned).into_iter().chain([KUBERNETES_ADDRESS.to_string()]).collect();
        Pki { ca_pem: ca_pem.to_owned(), ca_key_pem: ca_key_pem.to_owned(), token_key, own: Mutex::new(own) }
    }

    /// The authority that is kept in a directory already: nothing is made.
    pub fn read(directory: &Path) -> Result<Self, PkiError> {
        let [ca, key, token] = FILES.map(|name| directory.join(name));
        Ok(Pki::of(&read(&ca)?, &read(&key)?, TokenKey::from_private(read(&token)?)?))
    }

    /// The authority kept in a directory, made there if it is new.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let [ca, key, token] = FILES.map(|name| directory.join(name));
        if ca.exists() || key.exists() || token.exists() {
            return Pki::read(directory);
        }
        let pki = Pki::generate(now)?;
        fs::create_dir_all(directory).map_err(|source| PkiError::File { path: directory.into(), source })?;
        write_private(&key, &pki.ca_key_pem)?;
        write_private(&token, &pki.token_key.private_pem)?;
        write_private(&ca, &pki.ca_pem)?;
        Ok(pki)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, PkiError> {
        Ok(Issuer::from_ca_cert_pem(&self.ca_pem, KeyPair::from_pem(&self.ca_key_pem)?)?)
    }

    /// A client's certificate: `name` is the user, `group` its group.
    pub fn client(&self, name: &str, group: &str, now: Timestamp) -> Result<Identity, PkiError> {
        let mut params = valid_for(CertificateParams::default(), now, CLIENT_YEARS);
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A client's certificate that ends soon. It begins a little earlier, for clocks that are behind.
    pub fn short_lived_client(
        &self,
        name: &str,
        group: &str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        let (now, slack) = (SystemTime::from(now), Duration::from_secs(300));
        params.not_before = (now - slack).into();
        params.not_after = (now + lifetime).into();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn server(
        &self,
        common_name: &str,
        addresses: &[IpAddr],
        names: &[&str],
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = valid_for(CertificateParams::new(names)?, now, AUTHORITY_YEARS);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names.extend(addresses.iter().map(|a| SanType::IpAddress(*a)));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity, PkiError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// TLS for the listener: our certificate for these addresses, clients' certificates verified if they show one.
    pub fn server_tls(
        &self,
        addresses: &[IpAddr],
        extra: &[String],
        now: Timestamp,
    ) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        self.server_tls_for(addresses, extra, "", now)
    }

    /// The same, and certificates of other authorities (PEM) are accepted too: which users they identify is for the authenticators to decide.
    pub fn server_tls_for(
        &self,
        addresses: &[IpAddr],
        extra: &[String],
        others_pem: &str,
        now: Timestamp,
    ) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        let names: Vec<&str> = SERVER_NAMES.into_iter().chain(extra.iter().map(String::as_str)).collect();
        let own = extra.iter().map(|name| name.to_ascii_lowercase()).chain(addresses.iter().map(IpAddr::to_string));
        self.own.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
        let identity = self.server("pintle-apiserver", addresses, &names, now)?;
        self.tls(&identity, others_pem, &[b"h2", b"http/1.1"])
    }

    /// TLS for a node's own listener: HTTP/1.1 alone, which can hand connections over.
    pub fn node_tls(
        &self,
        name: &str,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        self.tls(&self.server(&format!("system:node:{name}"), addresses, &[name], now)?, "", &[b"http/1.1"])
    }

    /// What the server shows to nodes when it asks them: a user whose only role is `system:kubelet-api-admin`.
    pub fn node_client(&self, now: Timestamp) -> Result<Identity, PkiError> {
        self.client(NODE_CLIENT, "pintle:apiservers", now)
    }

    /// A server's certificate for a name, such as `SERVICE.NAMESPACE.svc`, and addresses.
    pub fn serving(&self, name: &str, addresses: &[IpAddr], now: Timestamp) -> Result<Identity, PkiError> {
        self.server(name, addresses, &[name], now)
    }

    fn tls(
        &self,
        identity: &Identity,
        others_pem: &str,
        protocols: &[&[u8]],
    ) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        server_tls(identity, &format!("{}\n{others_pem}", self.ca_pem), protocols)
    }
}

/// TLS for a server of this identity, which verifies certificates of clients against authorities (PEM), if they show one.
pub fn server_tls(
    identity: &Identity,
    client_ca_pem: &str,
    protocols: &[&[u8]],
) -> Result<Arc<rustls::ServerConfig>, PkiError> {
    let shown = Arc::new(Changing::default());
    shown.set(identity)?;
    let mut config = trusting(client_ca_pem)?.with_cert_resolver(shown);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

/// TLS for a server that verifies the certificates which clients show, if they show one.
fn trusting(
    ca_pem: &str,
) -> Result<rustls::ConfigBuilder<rustls::ServerConfig, rustls::server::WantsServerCert>, PkiError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = crate::authn::front_proxy::verifier(ca_pem)?;
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_client_cert_verifier(verifier))
}

fn valid_for(mut params: CertificateParams, now: Timestamp, years: i16) -> CertificateParams {
    // A day of slack for clocks that are behind.
    let start = now.to_zoned(TimeZone::UTC).date().saturating_sub(1.days());
    let end = start.saturating_add(i64::from(years).years());
    let day = |d: jiff::civil::Date| date_time_ymd(i32::from(d.year()), d.month() as u8, d.day() as u8);
    params.not_before = day(start);
    params.not_after = day(end);
    params
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::File { path: path.into(), source })
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { path: path.into(), source };
    // A file of the same name may be readable by others: it is replaced, not reused.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
