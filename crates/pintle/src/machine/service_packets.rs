//! Packets to service addresses that nobody on this machine serves are rejected here. Without that they would leave by the
//! default route, and someone else's network might answer.
//!
//! The rules stand where addresses have been rewritten already: a service proxy, whoever's it is, goes before them.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use pintle_meta::network::{SERVICE_NETWORK, SERVICE_NETWORK_BITS, is_service_address};

/// What this machine sends itself, and what it passes on for its Pods.
const CHAINS: [&str; 2] = ["OUTPUT", "FORWARD"];

/// The rules of one node. They go when it is dropped.
pub(super) struct ServicePackets {
    /// Tells the rules of this node from those of others on the machine.
    comment: String,
}

impl ServicePackets {
    /// Sets the rules up. A machine that cannot is told so, and its node runs without them; so is one whose own network
    /// is that of services, which the rules would cut off.
    pub(super) fn reject(node: &str, address: IpAddr) -> Self {
        let packets = ServicePackets { comment: format!("{node}: nobody serves this address") };
        if is_service_address(address) {
            tracing::warn!(%address, "this machine's own network overlaps with that of services, {SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}");
            return packets;
        }
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
        let services = format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}");
        let rule = ["-d", &services, "-m", "comment", "--comment", &self.comment, "-j", "REJECT"];
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
