//! What is planned for policies, by tables; what the rules do to packets is in `tests/`.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use pintle_runtime::Key;
use serde_json::{Value, json};

use super::*;
use crate::address::Family;

fn here() -> Here {
    Here {
        table: "t".to_owned(),
        bridge: "pintle0".to_owned(),
        node: "here".to_owned(),
        zone: String::new(),
        pods: Vec::new(),
        services: Vec::new(),
    }
}

fn policy(spec: Value) -> Policy {
    let policy: NetworkPolicy =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "p"}, "spec": spec})).unwrap();
    Policy::of(&policy)
}

fn pod(value: Value) -> Option<Member> {
    let pod: Pod = serde_json::from_value(value).unwrap();
    Member::of(&pod, "here")
}

fn running(last: u8, node: &str, app: &str) -> Option<Member> {
    pod(json!({"metadata": {"labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "ports": [
            {"name": "web", "containerPort": 8000 + u16::from(last)}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}]},
        "status": {"phase": "Running", "podIP": format!("10.244.0.{last}"), "podIPs": [{"ip": format!("10.244.0.{last}")}]}}))
}

/// The rules of a Pod, with the digests of names left out.
fn rules(direction: Direction, spec: Value) -> Vec<String> {
    let (key, policy, member) = (Key::new("shop", "p"), policy(spec), running(1, "here", "web").unwrap());
    let chain = plan([(&key, &policy)], direction, Family::V4, &member);
    let Some(chain) = chain else { return vec!["open".to_owned()] };
    let short = |rule: &String| {
        let mut rule = rule.replace(" comment \"shop/p\"", "");
        for (name, contents) in &chain.sets {
            rule = rule.replace(name, &format!("<{}>", contents.group));
        }
        rule
    };
    chain.rules.iter().map(short).collect()
}

#[test]
fn a_policy_isolates_in_the_directions_that_it_names_or_implies() {
    for (spec, ingress, egress) in [
        (json!({"podSelector": {}}), "drop", "open"),
        (json!({"podSelector": {}, "policyTypes": ["Ingress"]}), "drop", "open"),
        (json!({"podSelector": {}, "policyTypes": ["Egress"]}), "open", "drop"),
        (json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}), "drop", "drop"),
        (json!({"podSelector": {}, "egress": [{}]}), "drop", "return, drop"),
        (json!({"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress"]}), "drop", "open"),
        (json!({"podSelector": {}, "ingress": [{}], "policyTypes": ["Egress"]}), "open", "drop"),
        (json!({"ingress": [{"from": [], "ports": []}]}), "return, drop", "open"),
    ] {
        assert_eq!(rules(Direction::Ingress, spec.clone()).join(", "), ingress, "{spec}");
        assert_eq!(rules(Direction::Egress, spec.clone()).join(", "), egress, "{spec}");
    }
}

#[test]
fn each_peer_is_allowed_at_each_port() {
    let both = json!({"matchLabels": {"team": "a"}});
    for (peers, ports, expected) in [
        (json!([{"podSelector": {}}]), json!(null), vec!["ip saddr @<all Pods of namespace shop> return"]),
        (
            json!([{"namespaceSelector": both, "podSelector": {"matchLabels": {"app": "x"}}}]),
            json!([{"port": 80}]),
            vec!["ip saddr @<Pods with app=x of namespaces with team=a> tcp dport { 80 } return"],
        ),
        (json!([{"namespaceSelector": {}}]), json!(null), vec!["ip saddr @<all Pods of all namespaces> return"]),
        (
            json!(null),
            json!([{"port": 90, "endPort": 99}, {"port": 80}, {"port": 95, "endPort": 100}, {"port": 101}, {"protocol": "UDP"}, {"protocol": "UDP", "port": 1}]),
            vec!["meta l4proto udp return", "tcp dport { 80, 90-101 } return"],
        ),
        (json!(null), json!([{"port": "web"}, {"port": "dns"}]), vec!["tcp dport { 8001 } return"]),
        (json!(null), json!([{"port": "dns", "protocol": "UDP"}]), vec!["udp dport { 53 } return"]),
        (json!(null), json!([{"port": "none"}]), vec![]),
        (
            json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.2.0/24", "10.1.0.0/16", "10.2.0.0/16"]}}, {"ipBlock": {"cidr": "fd00::/8"}}]),
            json!([{"port": 1}, {"protocol": "SCTP", "port": 2}]),
            vec![
                "ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16, 10.2.0.0/16 } tcp dport { 1 } return",
                "ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16, 10.2.0.0/16 } sctp dport { 2 } return",
            ],
        ),
        (json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}]), json!(null), vec!["return"]),
        // Only another family, or what cannot be read: nobody, and not everybody.
        (json!([{"ipBlock": {"cidr": "::/0"}}]), json!(null), vec![]),
        (json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["junk"]}}]), json!(null), vec![]),
        (json!([{}]), json!(null), vec![]),
    ] {
        let spec = json!({"ingress": [{"from": peers, "ports": ports}]});
        let planned = rules(Direction::Ingress, spec.clone());
        assert_eq!(planned, [expected, vec!["drop"]].concat(), "{spec}");
    }
    let spec = json!({"egress": [{"to": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": "web"}]}]});
    let planned = rules(Direction::Egress, spec);
    let key = "ip daddr . meta l4proto . th dport";
    let expected = [
        format!("{key} @<all Pods of namespace shop> return"),
        format!("ip daddr 10.0.0.0/8 {key} @<all Pods of all namespaces> return"),
        "drop".to_owned(),
    ];
    assert_eq!(planned, expected);
}

#[test]
fn only_pods_with_addresses_of_their_own_count() {
    let with = |spec: Value, status: Value| {
        let mut spec = spec;
        spec["containers"] = json!([]);
        pod(json!({"metadata": {}, "spec": spec, "status": status})).map(|member| member.addresses.len())
    };
    let both = json!([{"ip": "10.244.0.1"}, {"ip": "fd00::1"}]);
    for (spec, status, expected) in [
        (json!({}), json!({"phase": "Running", "podIP": "10.244.0.1", "podIPs": both}), Some(2)),
        (json!({}), json!({"phase": "Pending", "podIP": "10.244.0.1"}), Some(1)),
        (json!({}), json!({"phase": "Pending"}), None),
        (json!({}), json!({"phase": "Succeeded", "podIPs": both}), None),
        (json!({}), json!({"phase": "Failed", "podIPs": both}), None),
        (json!({"hostNetwork": true}), json!({"phase": "Running", "podIPs": both}), None),
    ] {
        assert_eq!(with(spec.clone(), status.clone()), expected, "{spec} {status}");
    }
}

struct Scripts(Table);

impl Scripts {
    fn change(&mut self, change: impl FnOnce(&mut Table, &mut Touched)) -> String {
        let mut touched = Touched::default();
        change(&mut self.0, &mut touched);
        self.0.settle(&mut touched);
        self.0.steps(&here(), &touched).concat()
    }

    fn pod(&mut self, name: &str, member: Option<Member>) -> String {
        self.change(|table, touched| table.put_pod(&Key::new("shop", name), member, touched))
    }

    fn policy(&mut self, name: &str, spec: Option<Value>) -> String {
        self.change(|table, _| table.put_policy(&Key::new("shop", name), spec.map(policy)))
    }
}

#[test]
fn one_pod_more_is_one_element_more() {
    let mut scripts = Scripts(Table::default());
    assert_eq!(scripts.pod("a", running(1, "here", "web")), "", "nobody isolates it");
    assert_eq!(scripts.pod("b", running(2, "there", "client")), "");
    let from = |app: &str| json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": app}}}]}]});
    let script = scripts.policy("p", Some(from("client")));
    let (set, chain) = (name(&script, "pods-"), name(&script, "ingress-"));
    assert_eq!(
        script,
        format!(
            "add set ip t-policy {set} {{ type ipv4_addr; }}\n\
             add element ip t-policy {set} {{ 10.244.0.2 }}\n\
             add chain ip t-policy {chain}\n\
             add rule ip t-policy {chain} ip saddr @{set} return comment \"shop/p\"\n\
             add rule ip t-policy {chain} drop\n\
             add element ip t-policy ingress {{ 10.244.0.1 : jump {chain} }}\n\
             add element ip t-policy own {{ 10.244.0.1 . 10.244.0.1 }}\n"
        )
    );
    assert_eq!(scripts.policy("p", Some(from("client"))), "", "nothing changed");
    assert_eq!(
        scripts.pod("c", running(3, "there", "client")),
        format!("add element ip t-policy {set} {{ 10.244.0.3 }}\n")
    );
    assert_eq!(scripts.pod("x", running(9, "there", "other")), "", "a stranger");
    assert_eq!(
        scripts.pod("d", running(4, "here", "web")),
        format!(
            "add element ip t-policy ingress {{ 10.244.0.4 : jump {chain} }}\n\
             add element ip t-policy own {{ 10.244.0.4 . 10.244.0.4 }}\n"
        )
    );
    assert_eq!(scripts.pod("b", None), format!("delete element ip t-policy {set} {{ 10.244.0.2 }}\n"));
    // Another has its address before it is gone.
    let ending = running(3, "there", "client").map(|member| Member { is_ending: true, ..member });
    assert_eq!(scripts.pod("c", ending), "");
    assert_eq!(scripts.pod("e", running(3, "there", "client")), "");
    assert_eq!(scripts.pod("c", None), "");
    // Everything goes with the last who needs it.
    let script = scripts.policy("p", None);
    assert_eq!(
        script,
        format!(
            "delete element ip t-policy ingress {{ 10.244.0.1, 10.244.0.4 }}\n\
             delete element ip t-policy own {{ 10.244.0.1 . 10.244.0.1, 10.244.0.4 . 10.244.0.4 }}\n\
             flush chain ip t-policy {chain}\n\
             delete chain ip t-policy {chain}\n\
             delete set ip t-policy {set}\n"
        )
    );
}

#[test]
fn a_chain_is_there_before_anything_leads_to_it() {
    let mut table = Table::default();
    let mut change = |name: &str, spec: Value| {
        let mut touched = Touched::default();
        table.put_pod(&Key::new("shop", "a"), running(1, "here", "web"), &mut touched);
        table.put_policy(&Key::new("shop", name), Some(policy(spec)));
        table.settle(&mut touched);
        table.steps(&here(), &touched)
    };
    change("deny", json!({"podSelector": {}}));
    let steps = change("more", json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}));
    let [first, second] = &steps[..] else { panic!("{steps:?}") };
    assert!(first.contains("add element ip t-policy pods-") && first.contains("add chain"), "{first}");
    assert!(!first.contains("delete") && !first.contains("t-policy ingress {"), "nothing changes yet:\n{first}");
    let at = |what: &str| second.find(what).unwrap_or_else(|| panic!("{what}:\n{second}"));
    assert_eq!(at("delete element ip t-policy ingress { 10.244.0.1 }"), 0);
    assert!(at("add element ip t-policy ingress { 10.244.0.1 : jump") < at("flush chain"));
    assert!(!second.contains("own"), "it was isolated before:\n{second}");
    // While everything is written anew, another table judges.
    let whole = table.whole(&here());
    let tables: Vec<&str> = whole.iter().filter_map(|script| script.lines().next()).collect();
    assert_eq!(tables, ["table ip t-policy-guard", "table ip t-policy", "table ip t-policy-guard"]);
    assert_eq!(whole[0].replace("t-policy-guard", "t-policy"), whole[1]);
    assert!(whole[2].lines().count() == 4 && whole[2].ends_with("delete table ip6 t-policy-guard\n"), "{}", whole[2]);
}

#[test]
fn of_two_pods_with_one_address_the_one_that_stays_has_it() {
    let mut scripts = Scripts(Table::default());
    scripts.policy("deny", Some(json!({"podSelector": {"matchLabels": {"app": "old"}}})));
    assert!(scripts.pod("a", running(1, "here", "old")).contains("10.244.0.1 : jump"));
    let ending = running(1, "here", "old").map(|member| Member { is_ending: true, ..member });
    assert_eq!(scripts.pod("a", ending), "", "it is isolated to the end");
    let script = scripts.pod("z", running(1, "here", "new"));
    assert!(script.contains("delete element ip t-policy ingress { 10.244.0.1 }"), "{script}");
    assert!(!scripts.pod("a", None).contains("element"));
}

#[test]
fn everything_written_anew_is_what_the_changes_made() {
    let mut scripts = Scripts(Table::default());
    let from =
        |app: &str| json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": app}}}]}]});
    for last in 1..20 {
        let node = if last % 3 == 0 { "here" } else { "there" };
        scripts.pod(&format!("p{last}"), running(last, node, if last % 2 == 0 { "even" } else { "odd" }));
    }
    for (name, spec) in [("a", from("even")), ("b", from("odd")), ("a", from("none"))] {
        scripts.policy(name, Some(spec));
    }
    scripts.pod("p4", None);
    scripts.policy("b", None);
    let mut fresh = Scripts(Table::default());
    fresh.policy("a", Some(from("none")));
    for last in (1..20).rev().filter(|last| *last != 4) {
        let node = if last % 3 == 0 { "here" } else { "there" };
        fresh.pod(&format!("p{last}"), running(last, node, if last % 2 == 0 { "even" } else { "odd" }));
    }
    assert_eq!(scripts.0.whole(&here()), fresh.0.whole(&here()));
}

#[test]
fn a_pod_is_told_what_may_come_in_and_go_out() {
    let spec = json!({"podSelector": {}, "ingress": [
        {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
         "ports": [{"port": "web"}, {"port": 90, "endPort": 99, "protocol": "UDP"}]}]});
    let all = [
        (Key::new("shop", "allow"), policy(spec)),
        (Key::new("shop", "deny"), policy(json!({"podSelector": {}}))),
        (
            Key::new("shop", "others"),
            policy(json!({"podSelector": {"matchLabels": {"app": "other"}}, "policyTypes": ["Egress"]})),
        ),
    ];
    let text = explain(&all, &running(1, "here", "web").unwrap());
    let begins = "ingress: only what one of these allows\n\
        \x20 shop/allow: from Pods with app=client of namespace shop or 10.0.0.0/8 except 10.1.0.0/16, at web/tcp, 90-99/udp\n\
        \x20 shop/deny: nothing\n\
        egress: open, no NetworkPolicy isolates it\n\n\
        in the language of nft:\n\nchain ingress-";
    assert!(text.starts_with(begins), "{text}");
    assert!(text.contains("tcp dport { 8001 } return comment \"shop/allow\"\n"), "{text}");
}

fn name(script: &str, prefix: &str) -> String {
    let begin = script.find(prefix).unwrap_or_else(|| panic!("{prefix}:\n{script}"));
    script[begin..].split_whitespace().next().unwrap_or_default().to_owned()
}
