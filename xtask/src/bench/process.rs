//! What a server costs: its start, its memory, its processor time, read from the system.

use super::client::Target;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// A `pintle up` of ours. Dropping it ends it.
pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
    pub(crate) target: Target,
    /// From its start until `/readyz` answered.
    pub(crate) ready_after: Duration,
}

impl Server {
    pub(crate) async fn start(program: &std::path::Path, nodes: usize, port: u16) -> Result<Server> {
        let directory = crate::root().join(format!("target/bench-{port}"));
        let _ = std::fs::remove_dir_all(&directory);
        let listen = format!("127.0.0.1:{port}");
        let started = Instant::now();
        let child = Command::new(program)
            .args(["up", "--listen", &listen, "--nodes", &nodes.to_string(), "--data-dir"])
            .arg(&directory)
            .stdout(Stdio::null())
            .spawn()
            .context("pintle cannot be started")?;
        let mut server = Server {
            child,
            directory: directory.clone(),
            target: Target::new(&listen, None, None)?,
            ready_after: Duration::ZERO,
        };
        while !server.is_ready().await {
            if started.elapsed() > Duration::from_secs(30) {
                bail!("pintle did not become ready");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.ready_after = started.elapsed();
        let identity = identity(&directory.join("admin.kubeconfig"))?;
        server.target = Target::new(&listen, Some(&identity), None)?;
        Ok(server)
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut connection) = self.target.connect().await else { return false };
        let answer = connection.call(http::Method::GET, "/readyz", "", bytes::Bytes::new()).await;
        answer.is_ok_and(|(code, _)| code == 200)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        vec![self.child.id()]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Certificate and key out of a kubeconfig of ours.
fn identity(kubeconfig: &std::path::Path) -> Result<String> {
    let config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let mut pem = String::new();
    for key in ["client-certificate-data", "client-key-data"] {
        let text = config["users"][0]["user"][key].as_str().context("no client certificate in the kubeconfig")?;
        pem.push_str(&String::from_utf8(BASE64_STANDARD.decode(text)?)?);
    }
    Ok(pem)
}

/// Resident memory of all processes, in MB.
pub(crate) fn memory(pids: &[u32]) -> f64 {
    let of = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    pids.iter().filter_map(of).sum::<f64>() / 1024.0
}

/// Processor time of all processes so far.
pub(crate) fn processor(pids: &[u32]) -> Duration {
    let of = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        // Linux counts in hundredths of a second on every common machine.
        Some(Duration::from_millis(ticks * 10))
    };
    pids.iter().filter_map(of).sum()
}
