//! Which addresses Pods get.

use pintle_meta::network::node_parts;
use pintle_network::address::OfFamily;
use pintle_network::{Family, PodRanges, Range};

use super::check::subnet;

#[derive(clap::Args, Clone)]
pub(crate) struct RangeFlags {
    /// The addresses of all Pods; each machine gets a part of them. Two, with a comma between, for IPv4 and IPv6.
    #[arg(long, value_name = "CIDR", default_value = "10.244.0.0/16", value_delimiter = ',', num_args = 1, value_parser = range)]
    cluster_cidr: Vec<Range>,
    /// The addresses of this machine's own Pods, if the runtime has no network for them [default: the first part of those of the
    /// cluster].
    #[arg(long, value_name = "CIDR", value_delimiter = ',', num_args = 1, value_parser = range)]
    pod_cidr: Vec<Range>,
}

fn range(text: &str) -> Result<Range, String> {
    let text = subnet(text)?;
    text.parse().map_err(|error: pintle_meta::range::NoRange| error.to_string())
}

impl RangeFlags {
    /// What cannot be meant.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (flag, ranges) in [("--cluster-cidr", &self.cluster_cidr), ("--pod-cidr", &self.pod_cidr)] {
            let families = |family| ranges.iter().filter(|range| range.family() == family).count();
            if families(Family::V4) > 1 || families(Family::V6) > 1 {
                return Err(format!("{flag}: give one range of IPv4, one of IPv6, or one of each"));
            }
        }
        Ok(())
    }

    pub(crate) fn cluster(&self) -> &[Range] {
        &self.cluster_cidr
    }

    /// This machine's, and all.
    pub(crate) fn ranges(&self) -> PodRanges {
        let first = |range: &Range| node_parts(range).next().unwrap_or(*range);
        let node = match self.pod_cidr.is_empty() {
            true => self.cluster_cidr.iter().map(first).collect(),
            false => self.pod_cidr.clone(),
        };
        PodRanges { node, cluster: self.cluster_cidr.clone() }
    }
}
