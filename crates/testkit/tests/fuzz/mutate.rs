//! Small and large changes to values and to texts.

use pintle_meta::Random;
use serde_json::{Map, Value, json};

pub struct Mutator<'a> {
    pub random: &'a Random,
    /// Keys and texts of all samples: a field in a place where it does not belong.
    pub words: &'a [String],
}

impl Mutator<'_> {
    pub fn one_in(&self, odds: u64) -> bool {
        self.random.below(odds) == 0
    }

    pub fn pick<'b, T>(&self, list: &'b [T]) -> &'b T {
        &list[self.index(list.len())]
    }

    pub fn text_of(&self, list: &[&'static str]) -> &'static str {
        list[self.index(list.len())]
    }

    pub fn index(&self, length: usize) -> usize {
        usize::try_from(self.random.below(length.max(1) as u64)).unwrap_or(0)
    }

    /// One to four changes somewhere in the value.
    pub fn value(&self, value: &mut Value) {
        for _ in 0..=self.random.below(4) {
            self.somewhere(value, 0);
        }
    }

    fn somewhere(&self, value: &mut Value, depth: usize) {
        // The deeper, the likelier to stop: but most changes are below the top.
        let stop = depth > 0 && self.one_in(4);
        match value {
            Value::Object(map) if !map.is_empty() && !stop => {
                let name = map.keys().nth(self.index(map.len())).cloned().unwrap_or_default();
                if self.one_in(6) {
                    self.map(map, &name);
                } else if let Some(below) = map.get_mut(&name) {
                    self.somewhere(below, depth + 1);
                }
            }
            Value::Array(list) if !list.is_empty() && !stop => {
                let at = self.index(list.len());
                match self.random.below(6) {
                    0 => _ = list.remove(at),
                    1 => list.push(list[at].clone()),
                    2 => list.extend(std::iter::repeat_n(list[at].clone(), self.index(200))),
                    _ => self.somewhere(&mut list[at], depth + 1),
                }
            }
            // A value of its own type gets further than any other.
            Value::String(text) if !self.one_in(4) => {
                *text = if self.one_in(2) { self.text(text) } else { self.odd_text() }
            }
            Value::Number(_) if !self.one_in(4) => {
                *value = json!(*self.pick(&[0, -1, 1, 65_536, i64::MAX, i64::MIN, 2_147_483_648]))
            }
            Value::Bool(flag) if !self.one_in(4) => *flag = !*flag,
            other => *other = self.odd(),
        }
    }

    fn map(&self, map: &mut Map<String, Value>, name: &str) {
        match self.random.below(4) {
            0 => _ = map.remove(name),
            1 => _ = map.insert(self.word(), map[name].clone()),
            2 => {
                let moved = map.remove(name).unwrap_or_default();
                map.insert(self.word(), moved);
            }
            _ => _ = map.insert(self.word(), self.odd()),
        }
    }

    pub fn word(&self) -> String {
        const ODD: &[&str] = &[
            "",
            "\0",
            ".",
            "..",
            "/",
            "a/b",
            "~",
            "~1",
            "$ref",
            "f:",
            "k:{}",
            "%",
            "\u{1F4A5}",
            "metadata",
            "managedFields",
            "resourceVersion",
            "finalizers",
            "ownerReferences",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/finalizers",
        ];
        match self.random.below(4) {
            0 => (*self.pick(ODD)).to_owned(),
            1 => self.pick(self.words).repeat(1 + self.index(3)),
            _ => self.pick(self.words).clone(),
        }
    }

    fn odd_text(&self) -> String {
        const TEXTS: &[&str] = &[
            "",
            "\0",
            "\n",
            " ",
            "-",
            "💥",
            "../..",
            "%",
            "%s",
            "0.5Gi",
            "-1",
            "1e9999",
            "1e-999999999",
            "99999999999999999999999",
            "0x10",
            "2026-13-40T99:99:99Z",
            "9999-12-31T23:59:59.999999999Z",
            "2026-01-01T00:00:00Z",
            "::1",
            "10.0.0.0/33",
            "*/0 * * * *",
            "0 0 31 2 *",
            "@every 1ns",
            "TZ=x * * * * *",
            "*",
            "All",
            "None",
            "null",
            "true",
            "AA==",
            "a=b,c!=d",
            "a in (b)",
            "{{",
            "}}",
            "[[",
            "\\",
            "\"",
            "'",
        ];
        (*self.pick(TEXTS)).to_owned()
    }

    pub fn odd(&self) -> Value {
        match self.random.below(16) {
            0 => Value::Null,
            1 => json!(self.one_in(2)),
            2 => json!(0),
            3 => json!(-1),
            4 => json!(i64::MAX),
            5 => json!(u64::MAX),
            6 => json!(i64::MIN),
            7 => json!(1.5),
            8 => json!(1e300),
            9 => json!([]),
            10 => json!({}),
            11 => json!({"": [null, {}]}),
            12 => (0..self.index(160)).fold(json!(1), |inner, _| json!({"a": inner})),
            13 => json!("x".repeat(self.index(if self.one_in(50) { 70_000 } else { 300 }))),
            14 => json!(self.word()),
            _ => json!(self.odd_text()),
        }
    }

    /// Changes bytes: flipped, cut, doubled, or a token put in.
    pub fn bytes(&self, bytes: &mut Vec<u8>) {
        const TOKENS: &[&str] = &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\u0000",
            "\\ud800",
            "null",
            "1e400",
            "-0",
            "&a",
            "*a",
            "<<: *a",
            "- ",
            "? ",
            "!!binary ",
            "---\n",
            "...\n",
            "|",
            ">",
            "# ",
            "\t",
            "\r\n",
            "%YAML 1.2\n",
            "\u{feff}",
            "k8s\0",
            "\u{85}",
            "{{",
            "!!int ",
            "!!set ",
            "~",
        ];
        for _ in 0..=self.random.below(3) {
            let at = self.index(bytes.len() + 1);
            match self.random.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.random.below(8),
                1 => bytes.truncate(at),
                2 if at < bytes.len() => {
                    let end = at + self.index(bytes.len() - at);
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                3 if at < bytes.len() => _ = bytes.remove(at),
                _ => {
                    let token = self.pick(TOKENS).repeat(if self.one_in(20) { self.index(300) } else { 1 });
                    bytes.splice(at..at, token.into_bytes());
                }
            }
        }
    }

    /// The same for a text that must stay one.
    pub fn text(&self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        const LETTERS: &[char] = &[
            '!', '=', ',', '(', ')', ' ', '/', '.', '-', '_', '\0', '[', ']', '{', '}', '\'', '"', '\\', '*', '@', '?',
            ':', '$', '%', '&', '+', '#', 'é', '💥', '0', '9', 'a',
        ];
        for _ in 0..=self.random.below(4) {
            let at = self.index(letters.len() + 1);
            match self.random.below(4) {
                0 if at < letters.len() => letters[at] = *self.pick(LETTERS),
                1 if at < letters.len() => _ = letters.remove(at),
                2 => letters.truncate(at),
                _ => letters.insert(at, *self.pick(LETTERS)),
            }
        }
        letters.into_iter().collect()
    }
}

/// Every key and text in a value.
pub fn words(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                into.push(key.clone());
                words(below, into);
            }
        }
        Value::Array(list) => list.iter().for_each(|item| words(item, into)),
        Value::String(text) => into.push(text.clone()),
        _ => {}
    }
}

/// Every place in a value, as a JSON pointer.
pub fn pointers(value: &Value, here: &str, into: &mut Vec<String>) {
    into.push(here.to_owned());
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                pointers(below, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), into);
            }
        }
        Value::Array(list) => {
            for (index, below) in list.iter().enumerate() {
                pointers(below, &format!("{here}/{index}"), into);
            }
        }
        _ => {}
    }
}
