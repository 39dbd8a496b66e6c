//! Forgets UDP flows whose endpoint is gone. The kernel remembers where it sent the first datagram of a flow, for as long as there
//! are more: without this a client that never pauses never finds the next endpoint.
//!
//! By the kernel's own protocol for that (ctnetlink), because the program `conntrack` is on few machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

use crate::address::{Family, Protocol};
use crate::services::At;

/// Flows to a frontend, and the endpoints that it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub at: At,
    pub endpoints: Arc<[SocketAddr]>,
}

// Numbers of the protocol.
const GET: u16 = 0x101;
const DELETE: u16 = 0x102;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ADDRESSES: u16 = 1;
const PORTS: u16 = 2;
const NESTED: u16 = 0x8000;
/// The message's own head, and that of its kind.
const HEAD: usize = 16;
const KIND: usize = 4;
const UDP: u8 = 17;

/// One way of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    protocol: u8,
    from: SocketAddr,
    to: SocketAddr,
}

/// Forgets flows that lead to none of the endpoints that their frontend has. In the network namespace of the calling thread.
pub fn forget(stale: &[Stale]) -> Result<usize, Errno> {
    let mut forgotten = 0;
    for family in Family::ALL {
        let of_family: Vec<&Stale> = stale.iter().filter(|one| one.at.family() == family).collect();
        if of_family.is_empty() {
            continue;
        }
        let mut gone = Vec::new();
        dump(family, |original, reply, raw| {
            if of_family.iter().any(|one| one.is_left_by(original, reply)) {
                gone.push(raw.to_vec());
            }
        })?;
        for original in gone {
            match delete(family, &original) {
                // It ended meanwhile.
                Ok(()) | Err(Errno::NOENT) => forgotten += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(forgotten)
}

impl Stale {
    fn is_left_by(&self, original: Way, reply: Way) -> bool {
        let is_to = match self.at {
            At::Address(address, Protocol::Udp, port) => original.to == SocketAddr::new(address, port),
            At::NodePort(_, Protocol::Udp, port) => original.to.port() == port,
            _ => false,
        };
        is_to && original.protocol == UDP && !self.endpoints.contains(&reply.from)
    }
}

fn open() -> Result<OwnedFd, Errno> {
    socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::NETFILTER))
}

fn request(kind: u16, flags: u16, family: Family, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD + KIND + attributes.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // A number of the request and of the sender, of which we need neither.
    message.extend([0; 8]);
    let family = if family == Family::V4 { AddressFamily::INET } else { AddressFamily::INET6 };
    message.extend([u8::try_from(family.as_raw()).unwrap_or_default(), 0, 0, 0]);
    message.extend(attributes);
    message
}

/// Calls for each flow: both ways, and the first as the kernel wrote it.
fn dump(family: Family, mut each: impl FnMut(Way, Way, &[u8])) -> Result<(), Errno> {
    let socket = open()?;
    send(&socket, &request(GET, REQUEST | DUMP, family, &[]), SendFlags::empty())?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        for (kind, body) in messages(&buffer[..length]) {
            match kind {
                DONE => return Ok(()),
                ERROR => return code(body),
                _ => {
                    let attributes = body.get(KIND..).unwrap_or_default();
                    let raw = attributes_of(attributes).find(|(kind, _)| *kind == ORIGINAL).map(|(_, value)| value);
                    let way = |wanted| {
                        attributes_of(attributes).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| way(value))
                    };
                    if let (Some(original), Some(reply), Some(raw)) = (way(ORIGINAL), way(REPLY), raw) {
                        each(original, reply, raw);
                    }
                }
            }
        }
    }
}

fn delete(family: Family, original: &[u8]) -> Result<(), Errno> {
    let socket = open()?;
    let length = u16::try_from(original.len() + 4).unwrap_or(u16::MAX);
    let mut attribute = length.to_ne_bytes().to_vec();
    attribute.extend((ORIGINAL | NESTED).to_ne_bytes());
    attribute.extend(original);
    send(&socket, &request(DELETE, REQUEST | ACKNOWLEDGE, family, &attribute), SendFlags::empty())?;
    let mut buffer = vec![0; 4096];
    let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    messages(&buffer[..length]).find(|(kind, _)| *kind == ERROR).map_or(Ok(()), |(_, body)| code(body))
}

/// Zero stands for success.
fn code(body: &[u8]) -> Result<(), Errno> {
    let code = body.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(-code)) }
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let body = bytes.get(HEAD..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Kinds and values; what says that a value is nested is left out.
fn attributes_of(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn way(tuple: &[u8]) -> Option<Way> {
    let part = |wanted: u16| attributes_of(tuple).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let (addresses, ports) = (part(ADDRESSES)?, part(PORTS)?);
    // Sources stand under 1 and 3, destinations under 2 and 4: the families differ in length.
    let address = |wanted: [u16; 2]| {
        let (_, value) = attributes_of(addresses).find(|(kind, _)| wanted.contains(kind))?;
        let v4 = <[u8; 4]>::try_from(value).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
        v4.or_else(|| <[u8; 16]>::try_from(value).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))))
    };
    let port = |wanted: u16| {
        let (_, value) = attributes_of(ports).find(|(kind, _)| *kind == wanted)?;
        value.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    };
    let protocol = attributes_of(ports).find(|(kind, _)| *kind == 1).and_then(|(_, value)| value.first().copied())?;
    Some(Way {
        protocol,
        from: SocketAddr::new(address([1, 3])?, port(2)?),
        to: SocketAddr::new(address([2, 4])?, port(3)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(value.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn what_the_kernel_says_of_a_flow_is_understood_and_what_is_cut_off_is_not() {
        let addresses = [attribute(1, &[10, 244, 0, 2]), attribute(2, &[10, 96, 0, 10])].concat();
        let ports = [attribute(1, &[UDP]), attribute(2, &4000u16.to_be_bytes()), attribute(3, &53u16.to_be_bytes())];
        let tuple = [attribute(ADDRESSES | NESTED, &addresses), attribute(PORTS | NESTED, &ports.concat())].concat();
        let found = way(&tuple).unwrap();
        assert_eq!(
            (found.from.to_string().as_str(), found.to.to_string().as_str()),
            ("10.244.0.2:4000", "10.96.0.10:53")
        );
        for end in 0..tuple.len() {
            // Nothing to be sure of, and nothing that panics.
            let _ = way(&tuple[..end]);
        }
        assert!(messages(&[1, 0, 0]).next().is_none() && messages(&[255; 20]).next().is_none());
    }

    #[test]
    fn only_flows_to_an_endpoint_that_is_gone_are_forgotten() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let at = At::Address("10.96.0.10".parse().unwrap(), Protocol::Udp, 53);
        let stale = Stale { at, endpoints: [address("10.244.0.1:5353")].into() };
        let flow = |to: &str, by: &str| {
            let way = |from: &str, to: &str| Way { protocol: UDP, from: address(from), to: address(to) };
            (way("10.244.0.2:4000", to), way(by, "10.244.0.2:4000"))
        };
        for (to, by, left) in [
            ("10.96.0.10:53", "10.244.0.1:5353", false),
            ("10.96.0.10:53", "10.244.0.9:5353", true),
            ("10.96.0.10:53", "10.96.0.10:53", true),
            ("10.96.0.11:53", "10.244.0.9:5353", false),
        ] {
            let (original, reply) = flow(to, by);
            assert_eq!(stale.is_left_by(original, reply), left, "{to} {by}");
        }
    }
}
