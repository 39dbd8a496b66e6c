//! Which fields a write changed, named as people name them: `spec.replicas`. Names only, never values.

use pintle_schema::diff::{Diff, Node};

const DEEPEST: usize = 3;
const MOST: usize = 16;
const LONGEST_KEY: usize = 128;

/// The changed paths, separated by line ends; a list counts as a whole.
pub(super) fn changed(diff: &Diff) -> String {
    let mut found = Found { text: String::new(), count: 0 };
    if let Some(root) = diff.root() {
        found.walk(&mut Vec::with_capacity(DEEPEST), root);
    }
    found.text
}

struct Found {
    text: String,
    count: usize,
}

impl Found {
    fn walk<'a>(&mut self, path: &mut Vec<&'a str>, node: &'a Node) {
        for (key, below) in node.members() {
            if self.count == MOST {
                return;
            }
            if is_bookkeeping(path, key) {
                continue;
            }
            path.push(key);
            match below {
                Node::Members(_) if path.len() < DEEPEST => self.walk(path, below),
                _ => self.add(path),
            }
            path.pop();
        }
    }

    fn add(&mut self, path: &[&str]) {
        if self.count > 0 {
            self.text.push('\n');
        }
        self.count += 1;
        for (index, part) in path.iter().enumerate() {
            if index > 0 {
                self.text.push('.');
            }
            // A key of a map may hold anything; a line end would make two paths of one.
            if part.len() <= LONGEST_KEY && !part.bytes().any(|byte| byte.is_ascii_control()) {
                self.text.push_str(part);
            } else {
                self.text.extend(part.chars().take(LONGEST_KEY).map(|c| if c.is_control() { '?' } else { c }));
            }
        }
    }
}

/// What changes with every write says nothing.
fn is_bookkeeping(path: &[&str], key: &str) -> bool {
    path == ["metadata"] && matches!(key, "managedFields" | "resourceVersion" | "generation")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn changed(old: &Value, new: &Value) -> String {
        super::changed(&Diff::of(old, new))
    }

    #[test]
    fn changes_are_named_and_values_are_not() {
        let old = json!({"metadata": {"generation": 1, "labels": {"a": "1"}}, "spec": {"replicas": 1, "template": {"spec": {"x": 1}}},
            "data": {"password": "old"}, "status": {"phase": "Pending"}});
        let new = json!({"metadata": {"generation": 2, "labels": {"a": "2", "b": "1"}, "managedFields": []},
            "spec": {"replicas": 2, "template": {"spec": {"x": 2}}}, "data": {"password": "new"}});
        let paths = "data.password\nmetadata.labels.a\nmetadata.labels.b\nspec.replicas\nspec.template.spec\nstatus";
        assert_eq!(changed(&old, &new), paths);
        assert_eq!(changed(&old, &old), "");
    }

    #[test]
    fn a_change_of_everything_stays_small() {
        let wide = |n: u32| Value::from_iter((0..100).map(|i| (format!("k{i}"), json!(n))));
        assert_eq!(changed(&json!({"data": wide(1)}), &json!({"data": wide(2)})).lines().count(), MOST);
        assert_eq!(changed(&json!({"data": {}}), &json!({"data": {"a\nb": 1}})), "data.a?b");
    }
}
