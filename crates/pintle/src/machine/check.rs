//! What flags may say, read before anything starts: a mistake costs an error message and nothing else.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// A subnet from which a bridge and at least one Pod get addresses, as it was written.
pub(super) fn subnet(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no subnet; give one as in 10.244.0.0/24");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u32 =
        length.parse().ok().filter(|_| length.bytes().all(|digit| digit.is_ascii_digit())).ok_or_else(wrong)?;
    let (bits, value) = match address {
        IpAddr::V4(address) => (Ipv4Addr::BITS, u128::from(address.to_bits())),
        IpAddr::V6(address) => (128, address.to_bits()),
    };
    if length == 0 || length > bits {
        return Err(wrong());
    }
    let host_bits = bits - length;
    if host_bits < 2 {
        return Err(format!("{text} has no room for Pods; give /{} or a larger one", bits - 2));
    }
    let network = value >> host_bits << host_bits;
    if network != value {
        return Err(format!("{text} has bits set behind its length of {length}; it is no subnet"));
    }
    Ok(text.to_owned())
}

/// A socket of this machine: `unix:///PATH`.
pub(super) fn endpoint(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").filter(|path| path.starts_with('/') && path.len() > 1);
    path.map(PathBuf::from).ok_or_else(|| "give the runtime's socket as unix:///PATH".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_subnet_is_refused_before_anything_starts() {
        for fine in ["10.244.0.0/24", "10.0.0.0/8", "192.168.7.4/30", "fd00::/64"] {
            assert_eq!(subnet(fine), Ok(fine.to_owned()));
        }
        for wrong in [
            "",
            "banana",
            "10.244.0.0",
            "10.244.0.0/33",
            "10.244.0.0/x",
            "10.244.0.0/+24",
            "10.244.0.1/24",
            "10.0.0.0/31",
            "0.0.0.0/0",
            "fd00::/129",
        ] {
            assert!(subnet(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_runtime_is_reached_over_a_socket_of_this_machine() {
        assert_eq!(endpoint("unix:///run/c.sock"), Ok(PathBuf::from("/run/c.sock")));
        for wrong in ["", "/run/c.sock", "unix://run/c.sock", "unix:///", "tcp://127.0.0.1:1"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
