//! All policies, Pods and namespaces as this node sees them, and what has to change in the kernel when some of them do.
//!
//! A Pod of the cluster is an element of the sets that it belongs to, and a Pod of this node an element of the maps that lead to
//! its chains: one Pod more or less is a few elements, however many there are. Sets are kept for chains that name them, and chains
//! for the Pods of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use pintle_runtime::Key;

use super::plan::{Chain, Contents, plan};
use super::reading::{Direction, Labels, Member, Namespaces, Policy, picks};
use super::text::{self, Element};
use crate::address::Family;
use crate::dataplane::removal;
use crate::services::Here;

/// So many elements stand in one statement at most.
const BATCH: usize = 1000;

/// All that is known.
#[derive(Debug, Default)]
pub struct Table {
    namespaces: BTreeMap<String, Labels>,
    policies: BTreeMap<String, BTreeMap<Key, Arc<Policy>>>,
    pods: BTreeMap<String, BTreeMap<Key, Arc<Member>>>,
    /// Pods of this node whose chains are to be found anew.
    unsettled: BTreeSet<Key>,
    /// What each Pod of this node holds.
    held: BTreeMap<Key, Vec<(Place, Holder, Option<String>)>>,
    /// The chains that Pods of this node want for an address, without one if they are open. Of several the first has it.
    holders: BTreeMap<Place, BTreeMap<Holder, Option<String>>>,
    chains: BTreeMap<Name, Used<Chain>>,
    sets: BTreeMap<Name, Used<Set>>,
}

/// An address in one direction.
type Place = (Direction, IpAddr);

/// One that is being deleted comes after one that is not.
type Holder = (bool, Key);

type Name = (Family, String);

#[derive(Debug)]
struct Used<T> {
    users: usize,
    what: T,
}

#[derive(Debug)]
struct Set {
    contents: Contents,
    /// With the number of Pods that have it: one may have the address of one that is about to go.
    elements: BTreeMap<Element, usize>,
}

/// What the kernel has, where it differs from the table or did.
#[derive(Debug, Default)]
pub struct Touched {
    verdicts: BTreeMap<Place, Option<String>>,
    chains: BTreeMap<Name, bool>,
    sets: BTreeMap<Name, bool>,
    elements: BTreeMap<(Name, Element), bool>,
}

impl Table {
    pub fn put_namespace(&mut self, name: &str, labels: Option<Labels>, touched: &mut Touched) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        let members: Vec<Arc<Member>> = self.pods.get(name).into_iter().flat_map(BTreeMap::values).cloned().collect();
        for member in &members {
            self.count(name, member, touched, Count::Out);
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
        for member in &members {
            self.count(name, member, touched, Count::In);
        }
    }

    /// Call [`Table::settle`] when all that changed is put.
    pub fn put_policy(&mut self, key: &Key, policy: Option<Policy>) {
        let all = self.policies.entry(key.namespace().to_owned()).or_default();
        if all.get(key).map(Arc::as_ref) == policy.as_ref() {
            return;
        }
        match policy {
            Some(policy) => all.insert(key.clone(), Arc::new(policy)),
            None => all.remove(key),
        };
        let here = self.pods.get(key.namespace()).into_iter().flatten().filter(|(_, member)| member.is_here);
        self.unsettled.extend(here.map(|(key, _)| key.clone()));
    }

    /// Call [`Table::settle`] when all that changed is put.
    pub fn put_pod(&mut self, key: &Key, member: Option<Member>, touched: &mut Touched) {
        let all = self.pods.entry(key.namespace().to_owned()).or_default();
        let before = all.get(key).cloned();
        if before.as_deref() == member.as_ref() {
            return;
        }
        let member = member.map(Arc::new);
        match &member {
            Some(member) => all.insert(key.clone(), member.clone()),
            None => all.remove(key),
        };
        if let Some(member) = &member {
            self.count(key.namespace(), member, touched, Count::In);
        }
        if let Some(before) = &before {
            self.count(key.namespace(), before, touched, Count::Out);
        }
        if [before, member].iter().flatten().any(|member| member.is_here) {
            self.unsettled.insert(key.clone());
        }
    }

    /// Counts a Pod into the sets that it belongs to, or out of them.
    fn count(&mut self, namespace: &str, member: &Member, touched: &mut Touched, count: Count) {
        let labels = self.namespaces.get(namespace);
        for (name, set) in &mut self.sets {
            for element in elements(&set.what.contents, name.0, namespace, labels, member) {
                set.what.count(name, element, touched, count);
            }
        }
    }

    /// Finds the chains of the Pods of this node that something changed for.
    pub fn settle(&mut self, touched: &mut Touched) {
        for key in std::mem::take(&mut self.unsettled) {
            let wanted = self.wanted(&key);
            let before = self.held.remove(&key).unwrap_or_default();
            let mut held = Vec::new();
            // What is used is used before anything is left: a set that stays is not filled anew.
            for (place, holder, chain) in wanted {
                let name = chain.map(|chain| self.use_chain(place, chain, touched));
                held.push((place, holder, name));
            }
            for (place, holder, chain) in &before {
                self.hold(*place, holder, None, touched);
                if let Some(chain) = chain {
                    self.leave_chain(&(Family::of(place.1), chain.clone()), touched);
                }
            }
            for (place, holder, chain) in &held {
                self.hold(*place, holder, Some(chain.clone()), touched);
            }
            if !held.is_empty() {
                self.held.insert(key, held);
            }
        }
    }

    fn wanted(&self, key: &Key) -> Vec<(Place, Holder, Option<Chain>)> {
        let member = self.pods.get(key.namespace()).and_then(|all| all.get(key)).filter(|member| member.is_here);
        let Some(member) = member else { return Vec::new() };
        let policies = self.policies_of(key.namespace(), member);
        let mut wanted = Vec::new();
        for direction in Direction::ALL {
            for family in Family::ALL {
                let addresses: Vec<&IpAddr> =
                    member.addresses.iter().filter(|address| Family::of(**address) == family).collect();
                if addresses.is_empty() {
                    continue;
                }
                let chain = plan(policies.iter().copied(), direction, family, member);
                let holder = (member.is_ending, key.clone());
                wanted.extend(addresses.iter().map(|address| ((direction, **address), holder.clone(), chain.clone())));
            }
        }
        wanted
    }

    /// The policies that select a Pod, by name.
    pub(super) fn policies_of(&self, namespace: &str, member: &Member) -> Vec<(&Key, &Policy)> {
        let all = self.policies.get(namespace).into_iter().flatten();
        all.filter(|(_, policy)| picks(&policy.pods, &member.labels))
            .map(|(key, policy)| (key, policy.as_ref()))
            .collect()
    }

    fn hold(&mut self, place: Place, holder: &Holder, chain: Option<Option<String>>, touched: &mut Touched) {
        let holders = self.holders.entry(place).or_default();
        let before = holders.values().next().cloned().flatten();
        match chain {
            Some(chain) => holders.insert(holder.clone(), chain),
            None => holders.remove(holder),
        };
        if holders.is_empty() {
            self.holders.remove(&place);
        }
        touched.verdicts.entry(place).or_insert(before);
    }

    fn verdict(&self, place: &Place) -> Option<&String> {
        self.holders.get(place)?.values().next()?.as_ref()
    }

    fn use_chain(&mut self, place: Place, chain: Chain, touched: &mut Touched) -> String {
        let (direction, family) = (place.0, Family::of(place.1));
        let name = (family, chain.name(direction));
        if let Some(used) = self.chains.get_mut(&name) {
            used.users += 1;
            return name.1;
        }
        touched.chains.entry(name.clone()).or_insert(false);
        for (set, contents) in &chain.sets {
            self.use_set((family, set.clone()), contents, touched);
        }
        self.chains.insert(name.clone(), Used { users: 1, what: chain });
        name.1
    }

    fn leave_chain(&mut self, name: &Name, touched: &mut Touched) {
        let Some(used) = self.chains.get_mut(name) else { return };
        used.users -= 1;
        if used.users > 0 {
            return;
        }
        touched.chains.entry(name.clone()).or_insert(true);
        let sets = self.chains.remove(name).map(|used| used.what.sets).unwrap_or_default();
        for set in sets.into_keys() {
            self.leave_set(&(name.0, set), touched);
        }
    }

    fn use_set(&mut self, name: Name, contents: &Contents, touched: &mut Touched) {
        if let Some(used) = self.sets.get_mut(&name) {
            used.users += 1;
            return;
        }
        touched.sets.entry(name.clone()).or_insert(false);
        let mut set = Set { contents: contents.clone(), elements: BTreeMap::new() };
        let mut fill = |namespace: &str, members: &BTreeMap<Key, Arc<Member>>| {
            let labels = self.namespaces.get(namespace);
            for member in members.values() {
                for element in elements(contents, name.0, namespace, labels, member) {
                    set.count(&name, element, touched, Count::In);
                }
            }
        };
        match &contents.group.namespaces {
            // Most policies name Pods of their own namespace: others' are not even looked at.
            Namespaces::Named(namespace) => self.pods.get(namespace).into_iter().for_each(|all| fill(namespace, all)),
            Namespaces::Selected(_) => self.pods.iter().for_each(|(namespace, all)| fill(namespace, all)),
        }
        self.sets.insert(name, Used { users: 1, what: set });
    }

    fn leave_set(&mut self, name: &Name, touched: &mut Touched) {
        let Some(used) = self.sets.get_mut(name) else { return };
        used.users -= 1;
        if used.users > 0 {
            return;
        }
        touched.sets.entry(name.clone()).or_insert(true);
        let elements = self.sets.remove(name).map(|used| used.what.elements).unwrap_or_default();
        for element in elements.into_keys() {
            touched.elements.entry((name.clone(), element)).or_insert(true);
        }
    }

    /// What brings the kernel from what it has to this, as scripts that are applied one after the other; none if nothing changes.
    ///
    /// A transaction is not one moment for a packet under way: the kernel decides when the packet enters a chain which rules it
    /// sees, but looks into maps as they are when it gets there. A packet that was on its way when a chain and the verdict that
    /// leads to it came together would find the chain empty, and pass. So chains come first, and what leads to them second: it is
    /// the second that takes effect, all at once.
    pub fn steps(&self, here: &Here, touched: &Touched) -> Vec<String> {
        let (mut first, mut second) = (Script::new(here.policy_table()), Script::new(here.policy_table()));
        let is_new = |name: &Name| touched.sets.get(name) == Some(&false);
        self.make(&mut first, touched);
        second.elements("delete", self.elements(touched, true, |_| true));
        second.elements("add", self.elements(touched, false, |name| !is_new(name)));
        self.lead(&mut second, touched);
        [first.out, second.out].into_iter().filter(|script| !script.is_empty()).collect()
    }

    /// Makes sets and chains that nothing leads to yet.
    fn make(&self, script: &mut Script, touched: &Touched) {
        for (name, was) in &touched.sets {
            if let (false, Some(set)) = (was, self.sets.get(name)) {
                let definition = text::definition(name.0, &set.what.contents);
                script.line("add set", name, &format!(" {{ {definition} }}"));
            }
        }
        script.elements("add", self.elements(touched, false, |name| touched.sets.get(name) == Some(&false)));
        for (name, was) in &touched.chains {
            if let (false, Some(chain)) = (was, self.chains.get(name)) {
                script.line("add chain", name, "");
                for rule in &chain.what.rules {
                    script.line("add rule", name, &format!(" {rule}"));
                }
            }
        }
    }

    /// Leads addresses to their chains, and takes away what nothing leads to any more.
    fn lead(&self, script: &mut Script, touched: &Touched) {
        script.elements("delete", self.verdicts(touched, true));
        script.elements("add", self.verdicts(touched, false));
        for (name, was) in &touched.chains {
            if *was && !self.chains.contains_key(name) {
                script.line("flush chain", name, "");
                script.line("delete chain", name, "");
            }
        }
        for (name, was) in &touched.sets {
            if *was && !self.sets.contains_key(name) {
                script.line("delete set", name, "");
            }
        }
    }

    /// The elements that come to sets, or go from sets that stay.
    fn elements(&self, touched: &Touched, go: bool, of: impl Fn(&Name) -> bool) -> BTreeMap<Name, Vec<String>> {
        let mut written: BTreeMap<Name, Vec<String>> = BTreeMap::new();
        for ((name, element), was) in &touched.elements {
            let Some(set) = self.sets.get(name).filter(|_| of(name)) else { continue };
            let is = set.what.elements.contains_key(element);
            if *was == go && is != go {
                written.entry(name.clone()).or_default().push(element.written());
            }
        }
        written
    }

    /// The elements that come to the maps of addresses, or go from them.
    fn verdicts(&self, touched: &Touched, go: bool) -> BTreeMap<Name, Vec<String>> {
        let mut written: BTreeMap<Name, Vec<String>> = BTreeMap::new();
        for (place, was) in &touched.verdicts {
            let ((direction, address), is) = (place, self.verdict(place));
            if was.as_ref() == is {
                continue;
            }
            let map = (Family::of(*address), direction.word().to_owned());
            match (go, is) {
                (true, _) if was.is_some() => written.entry(map).or_default().push(address.to_string()),
                (false, Some(chain)) => written.entry(map).or_default().push(format!("{address} : jump {chain}")),
                _ => {}
            }
        }
        let addresses: BTreeSet<IpAddr> = touched.verdicts.keys().map(|place| place.1).collect();
        for address in addresses {
            let places = || Direction::ALL.into_iter().map(|direction| (direction, address));
            let had = |place: Place| match touched.verdicts.get(&place) {
                Some(was) => was.is_some(),
                None => self.verdict(&place).is_some(),
            };
            let (was, is) = (places().any(had), places().any(|place| self.verdict(&place).is_some()));
            if was == go && is != go {
                let set = (Family::of(address), "own".to_owned());
                written.entry(set).or_default().push(format!("{address} . {address}"));
            }
        }
        written
    }

    /// Everything, in place of whatever is there, as scripts that are applied one after the other.
    ///
    /// A packet under way may see neither the table that goes nor the one that comes in the same transaction. So another with the
    /// same rules stands in meanwhile, and both judge. If this program is lost in between, that other one stays until the next
    /// start, which begins with it.
    pub fn whole(&self, here: &Here) -> Vec<String> {
        let (table, guard) = (here.policy_table(), here.policy_guard());
        let removal = removal(std::slice::from_ref(&guard));
        vec![self.whole_in(guard), self.whole_in(table), removal]
    }

    fn whole_in(&self, table: String) -> String {
        let elements_of = |(name, set): (&Name, &Used<Set>)| -> Vec<((Name, Element), bool)> {
            set.what.elements.keys().map(|element| ((name.clone(), *element), false)).collect()
        };
        let everything = Touched {
            verdicts: self.holders.keys().map(|place| (*place, None)).collect(),
            chains: self.chains.keys().map(|name| (name.clone(), false)).collect(),
            sets: self.sets.keys().map(|name| (name.clone(), false)).collect(),
            elements: self.sets.iter().flat_map(elements_of).collect(),
        };
        let mut script = Script::new(table);
        script.out = Family::ALL.iter().map(|family| text::base(*family, &script.table)).collect();
        self.make(&mut script, &everything);
        self.lead(&mut script, &everything);
        script.out
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    In,
    Out,
}

impl Set {
    fn count(&mut self, name: &Name, element: Element, touched: &mut Touched, count: Count) {
        let pods = self.elements.entry(element).or_default();
        let was = *pods > 0;
        *pods = if count == Count::In { *pods + 1 } else { pods.saturating_sub(1) };
        let is = *pods > 0;
        if !is {
            self.elements.remove(&element);
        }
        if was != is {
            touched.elements.entry((name.clone(), element)).or_insert(was);
        }
    }
}

/// What a Pod is in a set; nothing if it does not belong there.
fn elements(
    contents: &Contents,
    family: Family,
    namespace: &str,
    labels: Option<&Labels>,
    member: &Member,
) -> BTreeSet<Element> {
    let in_namespace = match &contents.group.namespaces {
        Namespaces::Named(name) => name == namespace,
        Namespaces::Selected(selector) if selector.is_everything() => true,
        // Of a namespace that is not known yet nobody knows the labels.
        Namespaces::Selected(selector) => labels.is_some_and(|labels| picks(selector, labels)),
    };
    if !in_namespace || !picks(&contents.group.pods, &member.labels) {
        return BTreeSet::new();
    }
    let addresses = member.addresses.iter().filter(|address| Family::of(**address) == family);
    match &contents.port {
        None => addresses.map(|address| Element { address: *address, port: None }).collect(),
        Some((protocol, name)) => addresses
            .flat_map(|address| {
                let numbers = member.named(*protocol, name);
                numbers.map(|number| Element { address: *address, port: Some((*protocol, number)) })
            })
            .collect(),
    }
}

/// Statements in the order in which `nft` takes them: what is referred to comes first, and goes last.
struct Script {
    table: String,
    out: String,
}

impl Script {
    fn new(table: String) -> Self {
        Script { table, out: String::new() }
    }

    fn line(&mut self, verb: &str, name: &Name, rest: &str) {
        // Writing to a string cannot fail.
        _ = writeln!(self.out, "{verb} {} {} {}{rest}", name.0.word(), self.table, name.1);
    }

    fn elements(&mut self, verb: &str, sets: BTreeMap<Name, Vec<String>>) {
        for (name, elements) in sets {
            for batch in elements.chunks(BATCH) {
                self.line(&format!("{verb} element"), &name, &format!(" {{ {} }}", batch.join(", ")));
            }
        }
    }
}
