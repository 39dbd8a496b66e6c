//! The policies that isolate a Pod in one direction become the rules of a chain. Nothing here knows of other Pods: those whom
//! policies let through stand in sets, which the rules name.
//!
//! ```text
//! packet to 10.244.0.3 ──ingress──▶ ingress-5e1f… ─┬─ ip saddr @pods-90ab… tcp dport { 80 } return   shop/allow-clients
//!                                                  └─ drop
//! ```
//!
//! A chain returns what is allowed, so that a packet between two isolated Pods is judged by both, and drops the rest. Chains are
//! named after their rules: Pods with the same rules share one, and a chain never changes.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use pintle_runtime::Key;

use super::reading::{Direction, Group, Member, Peer, Policy, Port, Rule};
use crate::address::{Family, OfFamily, Protocol, Range};

/// What `nft` takes at most, in bytes.
const MAX_COMMENT: usize = 128;

/// Bytes of a name's digest. Names are made of what anybody may write into a policy: they must not collide on purpose either.
const DIGEST_BYTES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub rules: Vec<String>,
    /// The sets that the rules name.
    pub sets: BTreeMap<String, Contents>,
}

/// Who is in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub group: Group,
    /// Only with the numbers that they give this name.
    pub port: Option<(Protocol, String)>,
}

impl Contents {
    fn name(&self) -> String {
        match &self.port {
            None => format!("pods-{}", digested(&self.group.to_string())),
            Some((protocol, port)) => {
                format!("ports-{}", digested(&format!("{}\n{}\n{port}", self.group, protocol.word())))
            }
        }
    }
}

impl Chain {
    pub fn name(&self, direction: Direction) -> String {
        format!("{}-{}", direction.word(), digested(&self.rules.join("\n")))
    }
}

fn digested(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The chain of a Pod's addresses of one family; nothing if no policy isolates it in this direction.
pub fn plan<'a>(
    policies: impl IntoIterator<Item = (&'a Key, &'a Policy)>,
    direction: Direction,
    family: Family,
    member: &Member,
) -> Option<Chain> {
    let mut concerned = policies.into_iter().filter_map(|(key, policy)| Some((key, policy.allowed.get(&direction)?)));
    let first = concerned.next()?;
    let mut chain = Chain { rules: Vec::new(), sets: BTreeMap::new() };
    for (key, allowed) in std::iter::once(first).chain(concerned) {
        let comment: String = key.to_string().chars().take(MAX_COMMENT).collect();
        for rule in allowed {
            let writer = Writer { direction, family, member, chain: &mut chain };
            for matched in writer.matches(rule) {
                let space = if matched.is_empty() { "" } else { " " };
                chain.rules.push(format!("{matched}{space}return comment \"{comment}\""));
            }
        }
    }
    chain.rules.push("drop".to_owned());
    Some(chain)
}

struct Writer<'a> {
    direction: Direction,
    family: Family,
    member: &'a Member,
    chain: &'a mut Chain,
}

impl Writer<'_> {
    /// Each combination of a peer and a port, as `nft` matches it.
    fn matches(mut self, rule: &Rule) -> Vec<String> {
        let Ports { plain, named } = self.ports(rule.ports.as_deref());
        let peers: Vec<Option<&Peer>> = match &rule.peers {
            None => vec![None],
            Some(peers) => peers.iter().map(Some).collect(),
        };
        let mut matches = Vec::new();
        for peer in peers {
            let Some((block, group)) = self.peer(peer) else { continue };
            for port in &plain {
                let pods = group.clone().map(|group| self.pods(group)).unwrap_or_default();
                matches.push(joined(&[&block, &pods, port]));
            }
            for (protocol, name) in &named {
                let group = group.clone().unwrap_or_else(Group::everybody);
                let port = self.named(Contents { group, port: Some((*protocol, name.clone())) });
                matches.push(joined(&[&block, &port]));
            }
        }
        matches
    }

    fn side(&self) -> String {
        let side = if self.direction == Direction::Ingress { "saddr" } else { "daddr" };
        format!("{} {side}", self.family.word())
    }

    /// The range that a peer is, or the Pods; nothing if it is of another family.
    fn peer(&self, peer: Option<&Peer>) -> Option<(String, Option<Group>)> {
        match peer {
            None => Some((String::new(), None)),
            Some(Peer::Pods(group)) => Some((String::new(), Some(group.clone()))),
            Some(Peer::Block { range, .. }) if range.family() != self.family => None,
            Some(Peer::Block { range, except }) => Some((self.block(range, except), None)),
        }
    }

    fn block(&self, range: &Range, except: &[Range]) -> String {
        let side = self.side();
        let inside = if range.bits() == 0 { String::new() } else { format!("{side} {range}") };
        let mut except: Vec<&Range> = except.iter().filter(|one| one.family() == self.family).collect();
        except.sort_by_key(|one| one.bits());
        // `nft` takes no ranges that overlap; the wider ones come first here.
        let mut outside: Vec<&Range> = Vec::new();
        for one in except {
            if !outside.iter().any(|wider| wider.contains(one.first())) {
                outside.push(one);
            }
        }
        let outside: Vec<String> = outside.iter().map(ToString::to_string).collect();
        match outside.is_empty() {
            true => inside,
            false => joined(&[&inside, &format!("{side} != {{ {} }}", outside.join(", "))]),
        }
    }

    fn pods(&mut self, group: Group) -> String {
        let contents = Contents { group, port: None };
        let name = contents.name();
        let matched = format!("{} @{name}", self.side());
        self.chain.sets.insert(name, contents);
        matched
    }

    fn named(&mut self, contents: Contents) -> String {
        let name = contents.name();
        let matched = format!("{} . meta l4proto . th dport @{name}", self.side());
        self.chain.sets.insert(name, contents);
        matched
    }

    fn ports(&self, ports: Option<&[Port]>) -> Ports {
        let Some(ports) = ports else { return Ports { plain: vec![String::new()], named: Vec::new() } };
        let mut numbers: BTreeMap<Protocol, Vec<(u16, u16)>> = BTreeMap::new();
        let (mut whole, mut named) = (Vec::new(), Vec::new());
        for port in ports {
            match port {
                Port::All(protocol) => whole.push(*protocol),
                Port::Numbers(protocol, first, last) => numbers.entry(*protocol).or_default().push((*first, *last)),
                // It is a name of the one that is sent to: this Pod, or each peer for itself.
                Port::Named(protocol, name) if self.direction == Direction::Ingress => {
                    let own = self.member.named(*protocol, name).map(|number| (number, number));
                    numbers.entry(*protocol).or_default().extend(own);
                }
                Port::Named(protocol, name) => named.push((*protocol, name.clone())),
            }
        }
        whole.sort_unstable();
        whole.dedup();
        numbers.retain(|protocol, ranges| !ranges.is_empty() && !whole.contains(protocol));
        let of_protocols = whole.iter().map(|protocol| format!("meta l4proto {}", protocol.word()));
        let of_numbers = numbers.into_iter().map(|(protocol, ranges)| {
            let written = merged(ranges).into_iter().map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            });
            format!("{} dport {{ {} }}", protocol.word(), written.collect::<Vec<_>>().join(", "))
        });
        Ports { plain: of_protocols.chain(of_numbers).collect(), named }
    }
}

/// The ports of a rule: matched by number, and by the names that peers give them.
struct Ports {
    plain: Vec<String>,
    named: Vec<(Protocol, String)>,
}

/// The same numbers in ranges that do not meet.
fn merged(mut ranges: Vec<(u16, u16)>) -> Vec<(u16, u16)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn joined(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
}
