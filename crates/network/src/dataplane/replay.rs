//! A model of the kernel's rules: takes the scripts that loops write, in the few words of `nft` that they use, and refuses what the
//! kernel would refuse.

use std::collections::{BTreeMap, BTreeSet};

/// Tables by family and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset(BTreeMap<(String, String), Rules>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    sets: BTreeMap<String, Set>,
    chains: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    definition: String,
    elements: BTreeMap<String, String>,
}

type Lines<'a> = std::iter::Enumerate<std::str::Lines<'a>>;

impl Ruleset {
    /// Applies a script whole or not at all.
    ///
    /// # Errors
    ///
    /// The first line that the kernel would not take, and why.
    pub fn apply(&mut self, script: &str) -> Result<(), String> {
        let mut next = self.clone();
        let mut lines = script.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let done = next.statement(line, &mut lines);
            done.map_err(|why| format!("line {}, {line:?}: {why}", number + 1))?;
        }
        *self = next;
        Ok(())
    }

    /// Is there a table of this name in some family?
    pub fn has(&self, table: &str) -> bool {
        self.0.keys().any(|(_, name)| name == table)
    }

    /// Each rule, set and element as a line of its own, to compare two rulesets by.
    pub fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for ((family, table), rules) in &self.0 {
            let at = format!("{family} {table}");
            lines.insert(format!("table {at}"));
            for (name, set) in &rules.sets {
                lines.insert(format!("set {at} {name} {{ {} }}", set.definition));
                lines.extend(set.elements.iter().map(|(key, value)| format!("{at} {name}[{key}] {value}")));
            }
            for (name, chain) in &rules.chains {
                lines.insert(format!("chain {at} {name}"));
                let numbered = chain.iter().enumerate();
                lines.extend(numbered.map(|(number, rule)| format!("{at} {name} {number}: {rule}")));
            }
        }
        lines
    }

    fn statement(&mut self, line: &str, lines: &mut Lines) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            ["table", family, table] => {
                self.0.entry((family.to_owned(), table.to_owned())).or_default();
                Ok(())
            }
            ["table", family, table, "{"] => {
                let rules = self.0.entry((family.to_owned(), table.to_owned())).or_default();
                rules.block(lines)
            }
            ["delete", "table", family, table] => {
                let gone = self.0.remove(&(family.to_owned(), table.to_owned()));
                gone.map(drop).ok_or_else(|| "no such table".to_owned())
            }
            [verb, what, family, table, name, ..] => {
                let rules = self.0.get_mut(&(family.to_owned(), table.to_owned())).ok_or("no such table")?;
                rules.change(verb, what, name, rest(line))
            }
            _ => Err("not known here".to_owned()),
        }
    }
}

/// What follows the first five words.
fn rest(line: &str) -> &str {
    line.splitn(6, ' ').nth(5).unwrap_or_default()
}

/// What stands between the outermost braces.
fn inside(text: &str) -> Result<&str, String> {
    let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.map(str::trim).ok_or_else(|| "braces do not match".to_owned())
}

impl Rules {
    /// The lines of a table up to its closing brace.
    fn block(&mut self, lines: &mut Lines) -> Result<(), String> {
        // Chains may name sets and chains that come later in the block.
        let mut rules: Vec<(String, String)> = Vec::new();
        let mut chain: Option<String> = None;
        for (_, line) in lines.by_ref() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (&chain, &words[..]) {
                (None, ["}"]) => {
                    return rules.into_iter().try_for_each(|(chain, rule)| self.add_rule(&chain, &rule));
                }
                (Some(_), ["}"]) => chain = None,
                (None, ["set" | "map", name, ..]) => {
                    let definition = inside(line.splitn(3, ' ').nth(2).unwrap_or_default())?;
                    self.add_set(name, definition)?;
                }
                (None, ["chain", name, "{"]) => {
                    self.chains.entry((*name).to_owned()).or_default();
                    chain = Some((*name).to_owned());
                }
                (Some(chain), [_, ..]) => rules.push((chain.clone(), line.to_owned())),
                _ => return Err(format!("{line:?} is not known here")),
            }
        }
        Err("a table has no end".to_owned())
    }

    fn change(&mut self, verb: &str, what: &str, name: &str, rest: &str) -> Result<(), String> {
        match (verb, what) {
            ("add", "set" | "map") => self.add_set(name, inside(rest)?),
            ("add", "chain") => {
                self.chains.entry(name.to_owned()).or_default();
                Ok(())
            }
            ("add", "rule") => self.add_rule(name, rest),
            ("add", "element") => inside(rest)?.split(", ").try_for_each(|element| self.add_element(name, element)),
            ("delete", "element") => {
                let set = self.sets.get_mut(name).ok_or("no such set")?;
                inside(rest)?
                    .split(", ")
                    .try_for_each(|key| set.elements.remove(key).map(drop).ok_or_else(|| format!("no element {key}")))
            }
            ("flush", "chain") => self.chains.get_mut(name).map(Vec::clear).ok_or_else(|| "no such chain".to_owned()),
            ("delete", "chain") => {
                let user = self.statements().find(|text| targets(text).any(|target| target == name));
                if let Some(user) = user {
                    return Err(format!("the chain is in use: {user}"));
                }
                let rules = self.chains.remove(name).ok_or("no such chain")?;
                if rules.is_empty() { Ok(()) } else { Err("the chain has rules".to_owned()) }
            }
            ("delete", "set" | "map") => {
                let user = self.statements().find(|text| named_sets(text).any(|set| set == name));
                if let Some(user) = user {
                    return Err(format!("the set is in use: {user}"));
                }
                self.sets.remove(name).map(drop).ok_or_else(|| "no such set".to_owned())
            }
            _ => Err("not known here".to_owned()),
        }
    }

    fn add_set(&mut self, name: &str, definition: &str) -> Result<(), String> {
        let set = Set { definition: definition.to_owned(), elements: BTreeMap::new() };
        match self.sets.get(name) {
            Some(there) if there.definition != set.definition => Err("a set of another type is there".to_owned()),
            Some(_) => Ok(()),
            None => {
                self.sets.insert(name.to_owned(), set);
                Ok(())
            }
        }
    }

    fn add_rule(&mut self, chain: &str, rule: &str) -> Result<(), String> {
        self.find(rule)?;
        self.chains.get_mut(chain).ok_or("no such chain")?.push(rule.to_owned());
        Ok(())
    }

    fn add_element(&mut self, set: &str, element: &str) -> Result<(), String> {
        let (key, value) = element.split_once(" : ").unwrap_or((element, ""));
        self.find(value)?;
        let set = self.sets.get_mut(set).ok_or("no such set")?;
        match set.elements.insert(key.to_owned(), value.to_owned()) {
            Some(before) if before != value => Err(format!("{key} is there, with {before}")),
            _ => Ok(()),
        }
    }

    /// Everything that a rule or a verdict names must be there.
    fn find(&self, text: &str) -> Result<(), String> {
        if let Some(chain) = targets(text).find(|chain| !self.chains.contains_key(*chain)) {
            return Err(format!("no chain {chain}"));
        }
        match named_sets(text).find(|set| !self.sets.contains_key(*set)) {
            Some(set) => Err(format!("no set {set}")),
            None => Ok(()),
        }
    }

    fn statements(&self) -> impl Iterator<Item = &String> {
        let rules = self.chains.values().flatten();
        rules.chain(self.sets.values().flat_map(|set| set.elements.values()))
    }
}

/// The chains that a rule or a verdict leads to.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace();
    let next = words.clone().skip(1);
    words.zip(next).filter(|(word, _)| matches!(*word, "goto" | "jump")).map(|(_, chain)| chain.trim_end_matches(','))
}

fn named_sets(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter_map(|word| word.strip_prefix('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "table ip t\ndelete table ip t\ntable ip t {\nset a { type ipv4_addr; }\nmap m { type ipv4_addr : verdict; }\n\
        chain c {\ntype filter hook forward priority filter;\nip saddr @a drop\nip daddr vmap @m\n}\n}\n";

    #[test]
    fn what_the_kernel_would_refuse_is_refused_whole() {
        let mut rules = Ruleset::default();
        rules.apply(BASE).unwrap();
        rules.apply(BASE).unwrap();
        rules.apply("add chain ip t d\nadd rule ip t d drop\nadd element ip t m { 10.0.0.1 : jump d }\n").unwrap();
        let before = rules.clone();
        for (script, why) in [
            ("add element ip t a { 10.0.0.1, 10.0.0.2 }\ndelete element ip t a { 10.0.0.3 }", "no element 10.0.0.3"),
            ("add element ip t b { 10.0.0.1 }", "no such set"),
            ("add element ip t m { 10.0.0.2 : jump e }", "no chain e"),
            ("add element ip t m { 10.0.0.1 : jump c }", "10.0.0.1 is there"),
            ("add rule ip t c ip saddr @b drop", "no set b"),
            ("flush chain ip t d\ndelete chain ip t d", "the chain is in use"),
            ("delete set ip t a", "the set is in use"),
            ("add chain ip x d", "no such table"),
            ("delete table ip6 t", "no such table"),
            ("list ruleset", "not known here"),
        ] {
            let refused = rules.apply(script).unwrap_err();
            assert!(refused.contains(why), "{script}: {refused}");
            assert_eq!(rules, before, "{script}");
        }
        rules.apply("delete element ip t m { 10.0.0.1 }\nflush chain ip t d\ndelete chain ip t d\n").unwrap();
        let mut fresh = Ruleset::default();
        fresh.apply(BASE).unwrap();
        assert_eq!(rules.lines(), fresh.lines());
        assert!(rules.has("t") && !rules.has("u"));
    }
}
