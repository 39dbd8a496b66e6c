//! What policies let in and out of a Pod, in words.

use std::fmt::Write;

use pintle_runtime::Key;

use super::plan::plan;
use super::reading::{Direction, Member, Peer, Policy, Port, Rule, picks};
use crate::address::Family;

/// Which of the policies hold for a Pod, what they let in and out, and the rules that do it. The policies are those of its
/// namespace.
pub fn explain(policies: &[(Key, Policy)], member: &Member) -> String {
    let own: Vec<(&Key, &Policy)> = policies
        .iter()
        .filter(|(_, policy)| picks(&policy.pods, &member.labels))
        .map(|(key, policy)| (key, policy))
        .collect();
    let mut out = String::new();
    // Writing to a string cannot fail.
    for direction in Direction::ALL {
        let concerned: Vec<_> =
            own.iter().filter_map(|(key, policy)| Some((key, policy.allowed.get(&direction)?))).collect();
        if concerned.is_empty() {
            _ = writeln!(out, "{}: open, no NetworkPolicy isolates it", direction.word());
            continue;
        }
        _ = writeln!(out, "{}: only what one of these allows", direction.word());
        for (key, allowed) in concerned {
            let rules: Vec<String> = allowed.iter().map(|rule| words(rule, direction)).collect();
            _ = writeln!(out, "  {key}: {}", if rules.is_empty() { "nothing".to_owned() } else { rules.join("; ") });
        }
    }
    let mut rules = String::new();
    for direction in Direction::ALL {
        for family in Family::ALL {
            if !member.addresses.iter().any(|address| Family::of(*address) == family) {
                continue;
            }
            let Some(chain) = plan(own.iter().copied(), direction, family, member) else { continue };
            _ = writeln!(rules, "chain {} {{", chain.name(direction));
            chain.rules.iter().for_each(|rule| _ = writeln!(rules, "  {rule}"));
            _ = writeln!(rules, "}}");
            for (name, contents) in &chain.sets {
                let port = contents.port.as_ref();
                let port = port.map(|(protocol, name)| format!(", at their {} port {name}", protocol.word()));
                _ = writeln!(rules, "  @{name}: {}{}", contents.group, port.unwrap_or_default());
            }
        }
    }
    if !rules.is_empty() {
        _ = write!(out, "\nin the language of nft:\n\n{rules}");
    }
    out
}

fn words(rule: &Rule, direction: Direction) -> String {
    let peer = |peer: &Peer| match peer {
        Peer::Pods(group) => group.to_string(),
        Peer::Block { range, except } if except.is_empty() => range.to_string(),
        Peer::Block { range, except } => {
            let except: Vec<String> = except.iter().map(ToString::to_string).collect();
            format!("{range} except {}", except.join(", "))
        }
    };
    let port = |port: &Port| match port {
        Port::All(protocol) => format!("every {} port", protocol.word()),
        Port::Numbers(protocol, first, last) if first == last => format!("{first}/{}", protocol.word()),
        Port::Numbers(protocol, first, last) => format!("{first}-{last}/{}", protocol.word()),
        Port::Named(protocol, name) => format!("{name}/{}", protocol.word()),
    };
    let preposition = if direction == Direction::Ingress { "from" } else { "to" };
    let peers = match &rule.peers {
        None => "everybody".to_owned(),
        Some(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(" or "),
    };
    match &rule.ports {
        None => format!("{preposition} {peers}"),
        Some(ports) => format!("{preposition} {peers}, at {}", ports.iter().map(port).collect::<Vec<_>>().join(", ")),
    }
}
