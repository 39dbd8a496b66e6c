//! Bounds on how much a Pod sends and receives.

use super::config::Bandwidth;

/// How long packets may wait.
const LATENCY: &str = "25ms";
/// What passes at once at least; less than a packet would stop everything.
const LEAST_BURST: u64 = 16 << 10;

/// What the node's end of the cable sends is what the Pod receives.
pub(super) fn on_the_node(bandwidth: &Bandwidth, cable: &str) -> Vec<String> {
    line(cable, bandwidth.ingress_rate, bandwidth.ingress_burst)
}

/// What the Pod sends is bounded at its own end: no second device is needed. A Pod that may administer its network can lift that.
pub(super) fn in_the_pod(bandwidth: &Bandwidth, interface: &str) -> Vec<String> {
    line(interface, bandwidth.egress_rate, bandwidth.egress_burst)
}

fn line(device: &str, rate: u64, burst: u64) -> Vec<String> {
    if rate == 0 {
        return Vec::new();
    }
    // A runtime that names no burst means as much as the protocol can say; the kernel takes a second's worth.
    let burst = if burst == 0 { rate / 8 } else { (burst / 8).min(rate / 8) }.clamp(LEAST_BURST, 1 << 30);
    vec![format!("qdisc replace dev {device} root tbf rate {rate}bit burst {burst}b latency {LATENCY}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_bandwidth_that_it_was_given() {
        let bandwidth = Bandwidth { ingress_rate: 8_000_000, egress_rate: 800, ..Bandwidth::default() };
        let node = on_the_node(&bandwidth, "veth1");
        assert_eq!(node, ["qdisc replace dev veth1 root tbf rate 8000000bit burst 1000000b latency 25ms"]);
        assert!(in_the_pod(&bandwidth, "eth0")[0].contains("rate 800bit burst 16384b"));
        assert!(on_the_node(&Bandwidth::default(), "veth1").is_empty());
    }
}
