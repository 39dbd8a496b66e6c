//! How a Pod looks names up: by its policy, its own configuration and what the node does.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pintle_container::Dns;

use super::Facts;
use crate::pods::described;

/// What a resolver takes: servers, search domains, and characters of all search domains.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const MOST_SEARCH_CHARACTERS: usize = 2048;
const LONGEST_DOMAIN: usize = 253;

/// What the cluster has to look names up with.
pub(crate) struct Cluster<'a> {
    pub(crate) servers: &'a [IpAddr],
    pub(crate) domain: &'a str,
}

/// Something that the Pod's owner should know: the event's reason and message.
pub(crate) type Warning = (&'static str, String);

/// `node` is what the node's own `resolv.conf` says.
pub(crate) fn dns(facts: &Facts<'_>, cluster: &Cluster<'_>, node: &Dns) -> (Dns, Vec<Warning>) {
    let mut warnings = Vec::new();
    let policy = facts.spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let by_cluster = match policy {
        "Default" => false,
        "ClusterFirst" => !facts.on_host_network(),
        _ => true,
    };
    let mut dns = match policy {
        "None" => Dns::default(),
        _ if by_cluster && !cluster.servers.is_empty() => Dns {
            servers: cluster.servers.iter().map(ToString::to_string).collect(),
            searches: cluster_searches(facts.namespace(), cluster.domain, &node.searches),
            options: vec!["ndots:5".to_owned()],
        },
        _ => {
            if by_cluster {
                let message = format!(
                    "pod: {:?}. kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                     \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
                    described(facts.pod)
                );
                warnings.push(("MissingClusterDNS", message));
            }
            node.clone()
        }
    };
    if let Some(own) = &facts.spec.dns_config {
        dns.servers = without_repeats(dns.servers.into_iter().chain(own.nameservers.iter().flatten().cloned()));
        dns.searches = without_repeats(dns.searches.into_iter().chain(own.searches.iter().flatten().cloned()));
        let own = own.options.iter().flatten();
        let own = own.map(|option| (option.name.clone().unwrap_or_default(), option.value.clone().unwrap_or_default()));
        dns.options = merged_options(&dns.options, own);
    }
    warnings.extend(cut(&mut dns));
    (dns, warnings)
}

/// What a `resolv.conf` says.
pub(crate) fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace();
        let (word, mut rest) = (words.next().unwrap_or_default(), words.map(str::to_owned));
        match word {
            "nameserver" => dns.servers.extend(rest.next()),
            // The last line of these counts.
            "search" => dns.searches = rest.collect(),
            "options" => dns.options = rest.collect(),
            _ => {}
        }
    }
    dns
}

fn cluster_searches(namespace: &str, domain: &str, of_node: &[String]) -> Vec<String> {
    if domain.is_empty() {
        return of_node.to_vec();
    }
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    without_repeats(own.into_iter().chain(of_node.iter().cloned()))
}

fn without_repeats(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        if !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept
}

/// The Pod's own value of an option takes the place of another.
fn merged_options(options: &[String], own: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let split = options.iter().map(|option| option.split_once(':').unwrap_or((option, "")));
    let mut merged: BTreeMap<String, String> = split.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    merged.extend(own);
    let written = |(name, value): (String, String)| if value.is_empty() { name } else { format!("{name}:{value}") };
    merged.into_iter().map(written).collect()
}

/// Leaves out what resolvers would not read.
fn cut(dns: &mut Dns) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if dns.servers.len() > MOST_SERVERS {
        dns.servers.truncate(MOST_SERVERS);
        let message = format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            dns.servers.join(" ")
        );
        warnings.push(("DNSConfigForming", message));
    }
    let wanted = dns.searches.len();
    dns.searches.truncate(MOST_SEARCHES);
    dns.searches.retain(|search| search.len() <= LONGEST_DOMAIN);
    while dns.searches.join(" ").len() > MOST_SEARCH_CHARACTERS {
        dns.searches.pop();
    }
    if dns.searches.len() < wanted {
        let message = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            dns.searches.join(" ")
        );
        warnings.push(("DNSConfigForming", message));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;

    fn made(spec: Value, servers: &[IpAddr]) -> (Dns, Vec<Warning>) {
        let pod = testing::pod(spec);
        let allocatable = testing::allocatable();
        let node = parse("# mine\nnameserver 192.0.2.53\nsearch corp.example lan\noptions ndots:2 rotate\n");
        dns(&testing::facts(&pod, &allocatable), &Cluster { servers, domain: "cluster.local" }, &node)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_pod_finds_services_by_their_short_names() {
        let cluster = ["10.96.0.10".parse().unwrap()];
        let (dns, warnings) = made(json!({"dnsPolicy": "ClusterFirst", "containers": []}), &cluster);
        assert_eq!(dns.servers, ["10.96.0.10"]);
        assert_eq!(
            dns.searches,
            words(&["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example", "lan"])
        );
        assert_eq!((dns.options, warnings), (words(&["ndots:5"]), Vec::new()));
    }

    #[test]
    fn a_pod_looks_names_up_as_its_policy_says() {
        let cluster = ["10.96.0.10".parse().unwrap()];
        let servers = |spec: Value| made(spec, &cluster).0.servers;
        assert_eq!(servers(json!({"dnsPolicy": "Default", "containers": []})), ["192.0.2.53"]);
        let on_host = |policy: &str| json!({"dnsPolicy": policy, "hostNetwork": true, "containers": []});
        assert_eq!(servers(on_host("ClusterFirst")), ["192.0.2.53"]);
        assert_eq!(servers(on_host("ClusterFirstWithHostNet")), ["10.96.0.10"]);
        let own = json!({"dnsPolicy": "None", "containers": [], "dnsConfig": {
            "nameservers": ["1.1.1.1"], "searches": ["a.b"], "options": [{"name": "edns0"}, {"name": "ndots", "value": "1"}],
        }});
        let expected =
            Dns { servers: words(&["1.1.1.1"]), searches: words(&["a.b"]), options: words(&["edns0", "ndots:1"]) };
        assert_eq!(made(own, &cluster), (expected, Vec::new()));
        let (dns, warnings) = made(json!({"containers": []}), &[]);
        assert_eq!(dns.servers, ["192.0.2.53"]);
        assert_eq!(warnings[0].0, "MissingClusterDNS");
    }

    #[test]
    fn what_a_resolver_would_not_read_is_left_out_and_said() {
        let searches: Vec<String> = (0..40).map(|index| format!("s{index}.example")).collect();
        let own = json!({"dnsPolicy": "None", "containers": [],
            "dnsConfig": {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"], "searches": searches}});
        let (dns, warnings) = made(own, &[]);
        assert_eq!((dns.servers.len(), dns.searches.len(), warnings.len()), (3, 32, 2));
    }
}
