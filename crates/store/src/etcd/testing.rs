//! A real etcd for a test, on loopback ports of its own, ended with the test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Config, Tls};
use crate::{EtcdStore, Options, Store};
use tempfile::TempDir;

/// One member of a cluster of etcd.
pub struct Member {
    arguments: Vec<String>,
    pub endpoint: String,
    log: PathBuf,
    process: Option<Child>,
}

/// A cluster of etcd, mostly of one member.
pub struct Etcd {
    pub members: Vec<Member>,
    _data: TempDir,
}

/// Where the test's certificates are; see `tls.rs`.
pub struct ServerTls<'a> {
    pub ca: &'a Path,
    pub certificate: &'a Path,
    pub key: &'a Path,
}

impl Etcd {
    pub fn start() -> Self {
        Self::start_with(1, None)
    }

    /// One member that keeps its data below a directory, for who measures a disk.
    pub fn start_in(directory: &Path) -> Self {
        Self::begin(tempfile::tempdir_in(directory).expect("a directory"), 1, None)
    }

    pub fn start_with(members: usize, tls: Option<&ServerTls<'_>>) -> Self {
        Self::begin(tempfile::tempdir().expect("a directory"), members, tls)
    }

    fn begin(data: TempDir, members: usize, tls: Option<&ServerTls<'_>>) -> Self {
        let ports = free_ports(members * 2);
        let peer = |member: usize| format!("http://127.0.0.1:{}", ports[members + member]);
        let cluster: Vec<String> = (0..members).map(|member| format!("m{member}={}", peer(member))).collect();
        let members = (0..members)
            .map(|member| {
                let endpoint = format!("127.0.0.1:{}", ports[member]);
                let client = format!("{}://{endpoint}", if tls.is_some() { "https" } else { "http" });
                let directory = data.path().join(format!("m{member}"));
                let mut arguments: Vec<String> = [
                    ("name", format!("m{member}")),
                    ("data-dir", directory.display().to_string()),
                    ("listen-client-urls", client.clone()),
                    ("advertise-client-urls", client),
                    ("listen-peer-urls", peer(member)),
                    ("initial-advertise-peer-urls", peer(member)),
                    ("initial-cluster", cluster.join(",")),
                    // The contract has transactions that are larger than etcd takes by default.
                    ("max-txn-ops", "2000".to_owned()),
                ]
                .into_iter()
                .flat_map(|(name, value)| [format!("--{name}"), value])
                .collect();
                if let Some(tls) = tls {
                    arguments.push("--client-cert-auth".to_owned());
                    for (name, file) in
                        [("trusted-ca-file", tls.ca), ("cert-file", tls.certificate), ("key-file", tls.key)]
                    {
                        arguments.extend([format!("--{name}"), file.display().to_string()]);
                    }
                }
                let log = data.path().join(format!("m{member}.log"));
                let mut member = Member { arguments, endpoint, log, process: None };
                member.start();
                member
            })
            .collect();
        Self { members, _data: data }
    }

    pub fn config(&self, prefix: &str) -> Config {
        let endpoints = self.members.iter().map(|member| member.endpoint.clone()).collect();
        Config { endpoints, tls: None, prefix: prefix.to_owned() }
    }

    pub async fn connect(&self) -> Arc<EtcdStore> {
        self.connect_with(self.config(""), Options::default()).await
    }

    pub async fn connect_with(&self, config: Config, options: Options) -> Arc<EtcdStore> {
        match EtcdStore::connect(config, options).await {
            Ok(store) => Arc::new(store),
            Err(error) => panic!("{error}\n{}", self.logs()),
        }
    }

    pub fn with_tls(&self, tls: Tls) -> Config {
        Config { tls: Some(tls), ..self.config("") }
    }

    fn logs(&self) -> String {
        let logs = self.members.iter().map(|member| std::fs::read_to_string(&member.log).unwrap_or_default());
        logs.collect::<Vec<_>>().join("\n")
    }
}

/// An etcd with a store over it, as the contract takes it.
pub async fn open() -> (Etcd, Arc<dyn Store>) {
    let etcd = Etcd::start();
    let store = etcd.connect().await;
    (etcd, store)
}

impl Member {
    pub fn start(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let process = Command::new(program())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts");
        self.process = Some(process);
    }

    /// Ends it without a word (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is ours");
            process.wait().expect("it is ours");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Nobody is left to tell.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn program() -> PathBuf {
    let asked_for = std::env::var_os("PINTLE_ETCD").map(PathBuf::from);
    asked_for.or_else(at_hand).unwrap_or_else(|| {
        panic!("these tests need a real etcd: set PINTLE_ETCD to one, or run `cargo xtask test`, which gets one")
    })
}

/// From the PATH, or where `cargo xtask test` has put one.
fn at_hand() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("etcd"));
    on_path.chain([tools.join("usr/bin/etcd"), tools.join("etcd-3.6")]).find(|file| file.is_file())
}

/// Ports that nobody listens on. They are below those that the system gives to connections, and every process begins
/// elsewhere, so that nobody takes them before etcd does.
fn free_ports(count: usize) -> Vec<u16> {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let candidates = std::iter::repeat_with(|| {
        let number = std::process::id().wrapping_mul(97) % PORTS + NEXT.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + number % PORTS).unwrap_or(u16::MAX)
    });
    candidates.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect()
}
