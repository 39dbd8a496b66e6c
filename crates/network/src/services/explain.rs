//! What the rules of a Service do, in words.

use std::net::SocketAddr;

use super::Here;
use super::choose::Span;
use super::plan::{At, Fragment, Frontend, Go, Own};
use super::table::{Table, Touched};
use pintle_runtime::Key;

/// What becomes of packets to each address of a Service on this node, and the rules that do it.
pub fn explain(key: &Key, fragment: &Fragment, here: &Here) -> String {
    let mut out = String::new();
    for (at, frontend) in &fragment.frontends {
        out += &format!("{}\n  {}\n", place(at), words(frontend, fragment, at, here));
        if frontend.guard.is_some() {
            out += "  only from the ranges that the Service lists\n";
        }
    }
    if let Some((port, count)) = fragment.health_check {
        out += &format!("port {port} of the node\n  tells balancers that {count} endpoints are here\n");
    }
    if fragment.frontends.is_empty() {
        return format!("{key} has no address: nothing is carried for it\n");
    }
    let (mut table, mut touched) = (Table::default(), Touched::default());
    table.put(key, fragment.clone(), &mut touched);
    out += "\nin the language of nft:\n\n";
    out += &table.script(here, &touched);
    out
}

fn place(at: &At) -> String {
    match at {
        At::Address(address, protocol, port) => format!("{} {}", SocketAddr::new(*address, *port), protocol.word()),
        At::NodePort(_, protocol, port) => format!("port {port} of the node, {}", protocol.word()),
    }
}

fn words(frontend: &Frontend, fragment: &Fragment, at: &At, here: &Here) -> String {
    let list = |span: Span| {
        let all: Vec<String> = span.of(&frontend.endpoints).iter().map(ToString::to_string).collect();
        if all.is_empty() { "nobody".to_owned() } else { all.join(", ") }
    };
    match &frontend.go {
        Go::Pick(span) => format!("to one of {}, which sees who calls", list(*span)),
        Go::External(span) => format!("to one of {}, which sees the node in place of who calls", list(*span)),
        Go::Local { local, cluster } => format!(
            "from outside to one of {} on {}, which sees who calls; from Pods to one of {}",
            list(*local),
            here.node,
            list(*cluster)
        ),
        Go::Own(chain) => {
            let endpoints = fragment.own.iter().filter(|((family, name), own)| {
                *family == at.family() && name.starts_with("to-") && matches!(own, Own::Chain(_))
            });
            let all: Vec<&str> = endpoints.filter_map(|((_, name), _)| name.splitn(3, '-').nth(2)).collect();
            format!("to one of {}, and each client to the same again (chain {chain})", all.join(", "))
        }
        Go::Reject => "refused: nobody serves it".to_owned(),
        Go::Drop => "dropped: others serve it, but nobody on this node".to_owned(),
    }
}
