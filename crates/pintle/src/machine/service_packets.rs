//! Packets to service addresses that nobody on this machine serves are rejected here. Without that they would leave by the
//! default route, and someone else's network might answer.
//!
//! The rules stand where addresses have been rewritten already: a service proxy, whoever's it is, goes before them.

use std::process::{Command, Stdio};

/// The network that the API server gives services their addresses from.
const SERVICES: &str = "10.96.0.0/12";

/// What this machine sends itself, and what it passes on for its Pods.
const CHAINS: [&str; 2] = ["OUTPUT", "FORWARD"];

/// The rules of one node. They go when it is dropped.
pub(super) struct ServicePackets {
    /// Tells the rules of this node from those of others on the machine.
    comment: String,
}

impl ServicePackets {
    /// Sets the rules up. A machine that cannot is told so, and its node runs without them.
    pub(super) fn reject(node: &str) -> Self {
        let packets = ServicePackets { comment: format!("{node}: nobody serves this address") };
        for chain in CHAINS {
            // One that a crash left behind is as good.
            if packets.iptables("-C", chain).is_err()
                && let Err(why) = packets.iptables("-I", chain)
            {
                tracing::warn!(chain, why, "packets to services that nobody serves leave this machine");
            }
        }
        packets
    }

    fn iptables(&self, action: &str, chain: &str) -> Result<(), String> {
        let rule = ["-d", SERVICES, "-m", "comment", "--comment", &self.comment, "-j", "REJECT"];
        let mut command = Command::new("iptables");
        // Others change rules too: wait for them.
        command.args(["-w", "10", action, chain]).args(rule);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("iptables: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

impl Drop for ServicePackets {
    fn drop(&mut self) {
        for chain in CHAINS {
            while self.iptables("-D", chain).is_ok() {}
        }
    }
}
