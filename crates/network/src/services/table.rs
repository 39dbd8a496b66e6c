//! The fragments of all Services, and what has to change in the kernel when some of them do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use pintle_runtime::Key;

use super::Here;
use super::plan::{At, Fragment, Frontend, Go, Own};
use super::text;
use crate::address::{Family, Protocol};
use crate::dataplane::{HealthChecks, Stale};

/// So many elements stand in one statement at most.
const BATCH: usize = 1000;

/// All that was planned.
#[derive(Debug, Default)]
pub struct Table {
    fragments: BTreeMap<Key, Fragment>,
    /// Who wants each frontend. Of several, the one it was allocated to has it, else the first by name.
    frontends: BTreeMap<At, BTreeMap<Key, Frontend>>,
    own: BTreeMap<(Family, String), Own>,
    /// How many frontends lead to each shared chain, and what is in it.
    shared: BTreeMap<(Family, String), Shared>,
    /// How many Services each address of this node's Pods serves.
    hairpins: BTreeMap<IpAddr, usize>,
    health_checks: HealthChecks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shared {
    users: usize,
    rules: Vec<String>,
}

/// What the kernel has, where it differs from the table or did.
#[derive(Debug, Default)]
pub struct Touched {
    frontends: BTreeMap<At, Option<Frontend>>,
    own: BTreeMap<(Family, String), Option<Own>>,
    shared: BTreeMap<(Family, String), bool>,
    hairpins: BTreeMap<IpAddr, bool>,
}

impl Table {
    /// Exchanges what is planned for a Service.
    pub fn put(&mut self, key: &Key, fragment: Fragment, touched: &mut Touched) {
        let before = self.fragments.get(key).cloned().unwrap_or_default();
        if before == fragment {
            return;
        }
        let ats: BTreeSet<At> = before.frontends.keys().chain(fragment.frontends.keys()).copied().collect();
        for at in ats {
            self.put_frontend(key, at, fragment.frontends.get(&at), touched);
        }
        let names: BTreeSet<_> = before.own.keys().chain(fragment.own.keys()).cloned().collect();
        for name in names {
            let new = fragment.own.get(&name).cloned();
            let old = match new {
                Some(own) => self.own.insert(name.clone(), own),
                None => self.own.remove(&name),
            };
            touched.own.entry(name).or_insert(old);
        }
        for address in fragment.here.difference(&before.here) {
            let users = self.hairpins.entry(*address).or_default();
            touched.hairpins.entry(*address).or_insert(*users > 0);
            *users += 1;
        }
        for address in before.here.difference(&fragment.here) {
            let users = self.hairpins.entry(*address).or_default();
            touched.hairpins.entry(*address).or_insert(*users > 0);
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.hairpins.remove(address);
            }
        }
        if let Some((port, _)) = before.health_check {
            self.health_checks.remove(&port);
        }
        if let Some((port, count)) = fragment.health_check {
            self.health_checks.insert(port, (key.clone(), count));
        }
        if fragment == Fragment::default() {
            self.fragments.remove(key);
        } else {
            self.fragments.insert(key.clone(), fragment);
        }
    }

    fn put_frontend(&mut self, key: &Key, at: At, new: Option<&Frontend>, touched: &mut Touched) {
        let holders = self.frontends.entry(at).or_default();
        let before = holder_of(holders).cloned();
        match new {
            Some(frontend) => holders.insert(key.clone(), frontend.clone()),
            None => holders.remove(key),
        };
        let after = holder_of(holders).cloned();
        if holders.is_empty() {
            self.frontends.remove(&at);
        }
        if before == after {
            return;
        }
        if let Some(after) = &after {
            self.use_chain(&at, &after.go, touched);
        }
        if let Some(before) = &before {
            self.leave_chain(&at, &before.go, touched);
        }
        touched.frontends.entry(at).or_insert(before);
    }

    fn use_chain(&mut self, at: &At, go: &Go, touched: &mut Touched) {
        let Some(rules) = go.rules(at) else { return };
        let name = (at.family(), go.chain(at));
        let shared = self.shared.entry(name.clone()).or_insert(Shared { users: 0, rules });
        touched.shared.entry(name).or_insert(shared.users > 0);
        shared.users += 1;
    }

    fn leave_chain(&mut self, at: &At, go: &Go, touched: &mut Touched) {
        let name = (at.family(), go.chain(at));
        let Some(shared) = self.shared.get_mut(&name) else { return };
        touched.shared.entry(name.clone()).or_insert(shared.users > 0);
        shared.users = shared.users.saturating_sub(1);
        if shared.users == 0 {
            self.shared.remove(&name);
        }
    }

    /// What brings the kernel from what it has to this; empty if nothing changes.
    pub fn script(&self, here: &Here, touched: &Touched) -> String {
        let mut script = Script::default();
        for (name, was) in &touched.own {
            script.own(name, was.as_ref(), self.own.get(name));
        }
        for (name, was) in &touched.shared {
            match (was, self.shared.get(name)) {
                (false, Some(shared)) => script.make_chain(name, &shared.rules),
                (true, None) => script.remove_chain(name),
                _ => {}
            }
        }
        for (at, was) in &touched.frontends {
            script.frontend(at, was.as_ref(), self.holder(at));
        }
        for (address, was) in &touched.hairpins {
            let (element, place) = (format!("{address} . {address}"), (Family::of(*address), "hairpins"));
            match (was, self.hairpins.contains_key(address)) {
                (false, true) => script.add.entry(place).or_default().push(element),
                (true, false) => script.delete.entry(place).or_default().push(element),
                _ => {}
            }
        }
        script.written(&here.table)
    }

    /// Everything, in place of whatever is there.
    pub fn whole(&self, here: &Here) -> String {
        let everything = Touched {
            frontends: self.frontends.keys().map(|at| (*at, None)).collect(),
            own: self.own.keys().map(|name| (name.clone(), None)).collect(),
            shared: self.shared.keys().map(|name| (name.clone(), false)).collect(),
            hairpins: self.hairpins.keys().map(|address| (*address, false)).collect(),
        };
        let base: String = Family::ALL.iter().map(|family| text::base(*family, here)).collect();
        base + &self.script(here, &everything)
    }

    fn holder(&self, at: &At) -> Option<&Frontend> {
        self.frontends.get(at).and_then(holder_of)
    }

    /// The UDP frontends that changed: flows to what is no endpoint any more are to be forgotten.
    pub fn stale(&self, touched: &Touched) -> Vec<Stale> {
        let udp = touched
            .frontends
            .keys()
            .filter(|at| matches!(at, At::Address(_, Protocol::Udp, _) | At::NodePort(_, Protocol::Udp, _)));
        udp.map(|at| Stale { at: *at, endpoints: self.holder(at).map(|one| one.endpoints.clone()).unwrap_or_default() })
            .collect()
    }

    /// Where balancers ask for this node.
    pub fn health_checks(&self) -> &HealthChecks {
        &self.health_checks
    }
}

/// Nobody takes over a cluster address or a node port by naming it as an outside address.
fn holder_of(holders: &BTreeMap<Key, Frontend>) -> Option<&Frontend> {
    holders.iter().min_by_key(|(key, frontend)| (frontend.by, *key)).map(|(_, frontend)| frontend)
}

type Place = (Family, &'static str);

/// Statements in the order in which `nft` takes them: what is referred to comes first, and goes last.
#[derive(Default)]
struct Script {
    declare: Vec<(Family, String)>,
    flush: Vec<(Family, String)>,
    delete: BTreeMap<Place, Vec<String>>,
    rules: Vec<(Family, String)>,
    add: BTreeMap<Place, Vec<String>>,
    remove_chains: Vec<(Family, String)>,
    remove_sets: Vec<(Family, String)>,
}

impl Script {
    fn own(&mut self, name: &(Family, String), was: Option<&Own>, is: Option<&Own>) {
        if was == is {
            return;
        }
        match was {
            Some(Own::Chain(_)) if matches!(is, Some(Own::Chain(_))) => self.flush.push(name.clone()),
            Some(Own::Chain(_)) => self.remove_chain(name),
            Some(Own::Set(_)) => self.remove_sets.push(name.clone()),
            None => {}
        }
        match is {
            Some(Own::Chain(rules)) => self.make_chain(name, rules),
            Some(Own::Set(definition)) => {
                self.declare.push((name.0, format!("set {{}} {} {{ {definition} }}", name.1)))
            }
            None => {}
        }
    }

    fn make_chain(&mut self, name: &(Family, String), rules: &[String]) {
        self.declare.push((name.0, format!("chain {{}} {}", name.1)));
        self.rules.extend(rules.iter().map(|rule| (name.0, format!("{} {rule}", name.1))));
    }

    fn remove_chain(&mut self, name: &(Family, String)) {
        self.flush.push(name.clone());
        self.remove_chains.push(name.clone());
    }

    fn frontend(&mut self, at: &At, was: Option<&Frontend>, is: Option<&Frontend>) {
        let (maps, key, family) = (at.maps(), at.key(), at.family());
        let place = |frontend: &Frontend| match frontend.go {
            Go::Reject | Go::Drop => (family, maps.refused),
            _ => (family, maps.verdicts),
        };
        let verdict = |frontend: &Frontend| format!("{key} : goto {}", frontend.go.chain(at));
        if was.map(|one| &one.go) != is.map(|one| &one.go) {
            if let Some(was) = was {
                self.delete.entry(place(was)).or_default().push(key.clone());
            }
            if let Some(is) = is {
                self.add.entry(place(is)).or_default().push(verdict(is));
            }
        }
        let guard = |frontend: Option<&Frontend>| frontend.and_then(|one| one.guard.clone());
        let (guarded, old_guard, new_guard) = ((family, "guarded"), guard(was), guard(is));
        if old_guard != new_guard {
            self.delete.entry(guarded).or_default().extend(old_guard.map(|_| key.clone()));
            self.add.entry(guarded).or_default().extend(new_guard.map(|chain| format!("{key} : goto {chain}")));
        }
        let (old, new) = (was.map_or(&[][..], |one| &one.endpoints), is.map_or(&[][..], |one| &one.endpoints));
        let place = (family, maps.endpoints);
        for number in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(number), new.get(number));
            if old == new {
                continue;
            }
            if old.is_some() {
                self.delete.entry(place).or_default().push(at.key_of(number));
            }
            if let Some(new) = new {
                self.add.entry(place).or_default().push(format!("{} : {}", at.key_of(number), text::value_of(*new)));
            }
        }
    }

    fn written(&self, table: &str) -> String {
        let mut out = String::new();
        let at = |family: &Family| format!("{} {table}", family.word());
        // Writing to a string cannot fail.
        for (family, what) in &self.declare {
            _ = writeln!(out, "add {}", what.replacen("{}", &at(family), 1));
        }
        for (family, chain) in &self.flush {
            _ = writeln!(out, "flush chain {} {chain}", at(family));
        }
        let elements = |out: &mut String, verb: &str, places: &BTreeMap<Place, Vec<String>>| {
            for ((family, set), elements) in places {
                for batch in elements.chunks(BATCH) {
                    _ = writeln!(out, "{verb} element {} {set} {{ {} }}", at(family), batch.join(", "));
                }
            }
        };
        elements(&mut out, "delete", &self.delete);
        for (family, rule) in &self.rules {
            _ = writeln!(out, "add rule {} {rule}", at(family));
        }
        elements(&mut out, "add", &self.add);
        for (family, chain) in &self.remove_chains {
            _ = writeln!(out, "delete chain {} {chain}", at(family));
        }
        for (family, set) in &self.remove_sets {
            _ = writeln!(out, "delete set {} {set}", at(family));
        }
        out
    }
}
