//! Which store the cluster is kept in: files in the data directory, memory, or an etcd that others may share.

use pintle_store::etcd::{Config, ConnectError, ParseError, Tls};
use pintle_store::file::OpenError;
use pintle_store::{EtcdStore, FileStore, MemoryStore, Options, Store};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args, Clone, Default)]
pub(crate) struct StoreFlags {
    /// Keep the cluster in etcd, as etcd://HOST:PORT,HOST:PORT [default: in files in DIR/store].
    ///
    /// Several pintle may share one etcd and then act as one: give them the same keys and certificates with --pki.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The authority that signed etcd's certificates; with it etcd is spoken to over TLS.
    #[arg(long, value_name = "FILE", requires = "store")]
    store_ca: Option<PathBuf>,
    /// The certificate to show to etcd.
    #[arg(long, value_name = "FILE", requires_all = ["store_ca", "store_key"])]
    store_cert: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "store_cert")]
    store_key: Option<PathBuf>,
}

/// Why there is no store, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("--store: {0}")]
    Url(#[from] ParseError),
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Connect(#[from] ConnectError),
}

impl StoreFlags {
    /// The etcd that was asked for, if any.
    pub(crate) fn etcd(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Refuses an address that is none, before anything is opened.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &self.store {
            Some(url) => Ok(Config::parse(url).map(drop)?),
            None => Ok(()),
        }
    }

    /// Opens the store: etcd if it was asked for, files if there is a directory, memory otherwise.
    pub(crate) async fn open(&self, directory: Option<&Path>) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match (&self.store, directory) {
            (Some(url), _) => Arc::new(self.connect(url).await?),
            (None, Some(directory)) => Arc::new(FileStore::open(directory.join("store"), Options::default())?),
            (None, None) => Arc::new(MemoryStore::new()),
        })
    }

    async fn connect(&self, url: &str) -> Result<EtcdStore, StoreError> {
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|source| StoreError::File { path: path.clone(), source });
        let mut config = Config::parse(url)?;
        if let Some(ca) = &self.store_ca {
            let pair = match (&self.store_cert, &self.store_key) {
                (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
                _ => None,
            };
            config.tls = Some(Tls { ca_pem: Some(read(ca)?), cert_and_key_pem: pair });
        }
        Ok(EtcdStore::connect(config, Options::default()).await?)
    }
}
