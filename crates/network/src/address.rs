//! Families of addresses, protocols, and ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Each family has a table of its own in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// How nftables calls the family of a table, and the header that its addresses are in.
    pub fn word(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }

    /// How nftables calls the type of an address.
    pub fn address_type(self) -> &'static str {
        match self {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        }
    }
}

/// What a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

    /// As Services write it; TCP if they do not.
    pub fn parse(text: Option<&str>) -> Option<Protocol> {
        match text.unwrap_or("TCP") {
            "TCP" | "" => Some(Protocol::Tcp),
            "UDP" => Some(Protocol::Udp),
            "SCTP" => Some(Protocol::Sctp),
            _ => None,
        }
    }

    /// How nftables calls it.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

/// Addresses with the same first bits: `10.244.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

impl Range {
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The address after the first one, which stands for the range itself.
    pub fn second(&self) -> Option<IpAddr> {
        let next = match self.first {
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().checked_add(1)?)),
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from_bits(first.to_bits().checked_add(1)?)),
        };
        self.contains(next).then_some(next)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (first.to_bits() ^ address.to_bits()).checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                (first.to_bits() ^ address.to_bits()).checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Range {
    type Err = NoRange;

    /// An address alone is a range of one.
    fn from_str(text: &str) -> Result<Range, NoRange> {
        let refused = || NoRange(text.to_owned());
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let bits = if text.contains('/') { bits.parse().ok().filter(|bits| *bits <= widest) } else { Some(widest) };
        let bits = bits.ok_or_else(refused)?;
        let first = match address {
            IpAddr::V4(v4) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & kept))
            }
            IpAddr::V6(v6) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & kept))
            }
        };
        Ok(Range { first, bits })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.bits)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a range of addresses such as 10.244.0.0/16")]
pub struct NoRange(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_where_its_bits_end() {
        for (text, written, inside, outside) in [
            ("10.244.3.4/16", "10.244.0.0/16", "10.244.255.255", "10.245.0.0"),
            ("192.0.2.7", "192.0.2.7/32", "192.0.2.7", "192.0.2.8"),
            ("fd00::1:2/64", "fd00::/64", "fd00::ffff", "fd00:0:0:1::"),
            ("fd00::1", "fd00::1/128", "fd00::1", "10.0.0.1"),
        ] {
            let range: Range = text.parse().unwrap();
            assert_eq!(range.to_string(), written);
            assert!(range.contains(inside.parse().unwrap()) && !range.contains(outside.parse().unwrap()), "{text}");
        }
        let second = |text: &str| text.parse::<Range>().unwrap().second().map(|address| address.to_string());
        assert_eq!(second("10.244.1.0/24").as_deref(), Some("10.244.1.1"));
        assert_eq!(second("10.244.1.7"), None);
        let all: Range = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "a/8", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
