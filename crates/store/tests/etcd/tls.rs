//! etcd over TLS: client certificates, and which server is trusted.

use std::path::PathBuf;

use pintle_store::etcd::{ConnectError, Tls};
use pintle_store::{EtcdStore, Options, Splice, Store, Txn};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use pintle_store::etcd::testing::{Etcd, ServerTls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_used_with_a_client_certificate_and_not_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let authority = Authority::new();
    let (certificate, key) = authority.issue("etcd", &["127.0.0.1"]);
    let files = [write("ca", &authority.pem), write("cert", &certificate), write("key", &key)];
    let etcd = Etcd::start_with(1, Some(&ServerTls { ca: &files[0], certificate: &files[1], key: &files[2] }));
    let (certificate, key) = authority.issue("pintle", &[]);
    let us = Some((certificate.into_bytes(), key.into_bytes()));
    let ca = Some(authority.pem.clone().into_bytes());

    let known = Tls { ca_pem: ca.clone(), cert_and_key_pem: us.clone() };
    let store = etcd.connect_with(etcd.with_tls(known), Options::default()).await;
    store.commit(Txn::new().put("/a", Splice::plain("secret"))).await.expect("written");
    assert!(store.get("/a").await.expect("readable").is_some());

    let other = Some(Authority::new().pem.into_bytes());
    let unknown = Tls { ca_pem: ca.clone(), cert_and_key_pem: None };
    let impostor = Tls { ca_pem: other, cert_and_key_pem: us.clone() };
    let (unknown, impostor, plain) = tokio::join!(
        EtcdStore::connect(etcd.with_tls(unknown), Options::default()),
        EtcdStore::connect(etcd.with_tls(impostor), Options::default()),
        EtcdStore::connect(etcd.config(""), Options::default()),
    );
    for (who, refused) in [("no certificate", unknown), ("another authority", impostor), ("plain text", plain)] {
        let error = refused.expect_err(who);
        assert!(matches!(error, ConnectError::NoAnswer { .. }), "{who}: {error}");
    }
    let nobody = Tls { ca_pem: None, cert_and_key_pem: us };
    let error = EtcdStore::connect(etcd.with_tls(nobody), Options::default()).await.expect_err("no authority");
    assert!(matches!(error, ConnectError::NoAuthority { .. }), "{error}");
    let broken = Tls { ca_pem: ca, cert_and_key_pem: Some((b"no certificate".to_vec(), b"no key".to_vec())) };
    let error = EtcdStore::connect(etcd.with_tls(broken), Options::default()).await.expect_err("not PEM");
    assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "etcd-ca");
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn issue(&self, name: &str, addresses: &[&str]) -> (String, String) {
        let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}
