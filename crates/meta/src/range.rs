//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses with the same first bits: `10.244.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

impl Range {
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The first address, which stands for the range itself.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The next address for a Pod after the one given last: neither the range's own, nor the bridge's, nor the last of IPv4.
    pub fn next_free(&self, last: Option<IpAddr>, is_taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let widest: u32 = if self.first.is_ipv4() { 32 } else { 128 };
        let free_bits = widest.saturating_sub(u32::from(self.bits)).min(32);
        let size = 1u64 << free_bits;
        let numbers = 2..size.saturating_sub(u64::from(self.first.is_ipv4()));
        let begin =
            last.and_then(|last| self.number_of(last)).filter(|number| numbers.contains(number)).unwrap_or(1) + 1;
        let (later, earlier) = (begin..numbers.end, numbers.start..begin.min(numbers.end));
        later.chain(earlier).filter_map(|number| self.nth(number)).find(|address| !is_taken(*address))
    }

    /// The address so many after the first.
    pub fn nth(&self, number: u64) -> Option<IpAddr> {
        let address = match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().checked_add(u32::try_from(number).ok()?)?).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().checked_add(number.into())?).into(),
        };
        self.contains(address).then_some(address)
    }

    fn number_of(&self, address: IpAddr) -> Option<u64> {
        match (self.first, address) {
            _ if !self.contains(address) => None,
            (IpAddr::V4(first), IpAddr::V4(address)) => Some(u64::from(address.to_bits() - first.to_bits())),
            (IpAddr::V6(first), IpAddr::V6(address)) => u64::try_from(address.to_bits() - first.to_bits()).ok(),
            _ => None,
        }
    }

    /// Whether they have an address in common.
    pub fn overlaps(&self, other: &Range) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// The parts of so many bits, in their order.
    pub fn parts(&self, bits: u8) -> impl Iterator<Item = Range> + use<> {
        let widest: u8 = if self.first.is_ipv4() { 32 } else { 128 };
        let count = if bits < self.bits || bits > widest { 0 } else { 1u64 << (bits - self.bits).min(63) };
        let (first, shift) = (self.first, widest - bits.min(widest));
        (0..count).filter_map(move |number| {
            let first = match first {
                IpAddr::V4(first) => Ipv4Addr::from_bits(
                    first.to_bits() + u32::try_from(number).ok()?.checked_shl(shift.into()).unwrap_or(0),
                )
                .into(),
                IpAddr::V6(first) => {
                    Ipv6Addr::from_bits(first.to_bits() + u128::from(number).checked_shl(shift.into()).unwrap_or(0))
                        .into()
                }
            };
            Some(Range { first, bits })
        })
    }

    /// The address after the first one: the gateway's.
    pub fn second(&self) -> Option<IpAddr> {
        self.nth(1)
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
        let parts = |text: &str, bits| text.parse::<Range>().unwrap().parts(bits).map(|part| part.to_string());
        assert!(parts("10.244.0.0/22", 24).eq(["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"]));
        assert!(parts("fd00::/63", 64).eq(["fd00::/64", "fd00:0:0:1::/64"]));
        assert_eq!((parts("10.0.0.0/24", 16).count(), parts("0.0.0.0/0", 32).take(3).count()), (0, 3));
        let overlap = |one: &str, other: &str| one.parse::<Range>().unwrap().overlaps(&other.parse().unwrap());
        assert!(overlap("10.0.0.0/8", "10.9.0.0/16") && overlap("10.9.0.0/16", "10.0.0.0/8"));
        assert!(!overlap("10.0.0.0/24", "10.0.1.0/24") && !overlap("0.0.0.0/0", "::/0"));
        let all: Range = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "a/8", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
