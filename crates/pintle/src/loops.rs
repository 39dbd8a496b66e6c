//! Which loops run: `--loops`, in the words of kube-controller-manager's `--controllers`; what they do: `pintle loops`.

pub(crate) mod account;
pub(crate) mod table;

use pintle_controllers::roster;

/// The scheduler, under the name that it has beside the loops of the roster.
pub(crate) const SCHEDULER: &str = "scheduler";

/// The node agents of this process.
pub(crate) const NODES: &str = "nodes";

/// The loops that were asked for.
///
/// `*` is all of them, `NAME` this one, `-NAME` all but this one; what is named first counts.
///
/// ```text
/// *               all            deployment,scheduler   these two
/// *,-deployment   all but one    none                   nothing but the API server
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    words: Vec<String>,
}

impl Choice {
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let words: Vec<String> =
            list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        if words == ["none"] {
            return Ok(Choice { words: Vec::new() });
        }
        let names = names();
        for word in words.iter().filter(|word| *word != "*") {
            let name = word.strip_prefix('-').unwrap_or(word);
            if !names.contains(&name) {
                let names = names.join(", ");
                return Err(format!("there is no loop {name:?}; give *, none, or names out of {names}"));
            }
        }
        if words.is_empty() {
            return Err("no loop is named; give none to start none".to_owned());
        }
        Ok(Choice { words })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        for word in &self.words {
            if word == name {
                return true;
            }
            if word.strip_prefix('-') == Some(name) {
                return false;
            }
        }
        self.words.iter().any(|word| word == "*")
    }

    /// Nothing but the API server: others may run loops of their own against it.
    pub(crate) fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// Those of the roster, in its order.
    pub(crate) fn of_roster(&self) -> Vec<roster::Loop> {
        roster::roster().into_iter().filter(|known| self.has(known.name)).collect()
    }
}

fn names() -> Vec<&'static str> {
    roster::roster().iter().map(|known| known.name).chain([SCHEDULER, NODES]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_chosen_as_kube_controller_manager_chooses_them() {
        let all = names().len();
        for (list, there, absent, count) in [
            ("*", "deployment", "", all),
            ("*,-deployment", "replicaset", "deployment", all - 1),
            ("-deployment,*", "scheduler", "deployment", all - 1),
            ("*, -scheduler , -nodes", "deployment", "scheduler", all - 2),
            ("deployment,replicaset", "deployment", "scheduler", 2),
            ("deployment,-deployment", "deployment", "nodes", 1),
            ("-deployment,deployment", "", "deployment", 0),
            ("-deployment", "", "replicaset", 0),
            ("none", "", "nodes", 0),
        ] {
            let choice = Choice::parse(list).unwrap();
            assert_eq!(names().into_iter().filter(|name| choice.has(name)).count(), count, "{list}");
            assert!(there.is_empty() || choice.has(there), "{list}");
            assert!(absent.is_empty() || !choice.has(absent), "{list}");
        }
    }

    #[test]
    fn a_mistyped_loop_is_refused_with_the_names_that_there_are() {
        for list in ["deploymnet", "*,-deploymnet", "none,deployment"] {
            let why = Choice::parse(list).unwrap_err();
            assert!(why.contains("deployment, replicaset") && why.contains("scheduler, nodes"), "{why}");
        }
        assert!(Choice::parse("").is_err() && Choice::parse(" , ").is_err());
    }
}
