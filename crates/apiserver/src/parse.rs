//! JSON and YAML texts as values, with what a value cannot show: keys that stand twice, and the order of fields.
//!
//! Both notations have the same limits: nesting ([`MAX_STORED_NESTING`]; an object's own limit is lower, and checked when it is known which
//! part of it is managed fields), and how much a document may grow through YAML's
//! aliases. A path is built only for a key that is reported, and only a bounded number of them is.

use crate::body;
use pintle_meta::object::MAX_STORED_NESTING;
use pintle_schema::strict::{Finding, Findings, MAX_PATH_BYTES, Problem};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use std::collections::HashMap;
use std::fmt;

/// More duplicate keys of a YAML document than this are not listed.
const MAX_DUPLICATE_LINES: usize = 100;

/// So many duplicate keys of a JSON text are looked at. The same field may stand twice again and again.
const MAX_DUPLICATE_FIELDS: usize = 10_000;

/// How much all texts and values of a YAML document may be together once its aliases are replaced.
const MAX_EXPANDED_BYTES: usize = 2 * body::LIMIT;
/// What a value costs besides its text.
const VALUE_BYTES: usize = 8;

pub const TOO_DEEP: &str = "exceeded max depth";

/// A text as a value. Of keys that stand twice, the last one wins.
pub struct Parsed<'a> {
    pub value: Value,
    pub duplicates: Duplicates,
    /// The JSON text, which alone tells in which order fields stand.
    pub text: Option<&'a [u8]>,
}

impl Parsed<'_> {
    /// A value in which nothing stood twice.
    pub fn sound(value: Value) -> Self {
        Parsed { value, duplicates: Duplicates::default(), text: None }
    }
}

/// Keys that stood twice, as the parser of the notation reports them.
#[derive(Clone, Debug)]
pub enum Duplicates {
    /// JSON: fields.
    Fields(Findings),
    /// YAML: `line 9: key "foo" already set in map`.
    Lines(Vec<String>),
}

impl Default for Duplicates {
    fn default() -> Self {
        Duplicates::Fields(Findings::new())
    }
}

impl Duplicates {
    /// One message per key, as warnings show them.
    pub fn messages(&self) -> Vec<String> {
        match self {
            Duplicates::Fields(findings) => findings.messages(),
            Duplicates::Lines(lines) => lines.clone(),
        }
    }

    /// As a refusal shows them.
    pub fn errors(&self) -> Vec<String> {
        match self {
            Duplicates::Fields(findings) => findings.messages(),
            Duplicates::Lines(lines) if lines.is_empty() => Vec::new(),
            Duplicates::Lines(lines) => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
        }
    }
}

/// Reads JSON.
pub fn json(bytes: &[u8]) -> Result<Parsed<'_>, serde_json::Error> {
    let mut noted = Noted::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader::<String> { place: &Place::ROOT, noted: &mut noted, key: std::marker::PhantomData };
    let value = reader.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Parsed { value, duplicates: Duplicates::Fields(noted.findings), text: Some(bytes) })
}

/// Reads YAML as JSON.
pub fn yaml(bytes: &[u8]) -> Result<Parsed<'static>, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let mut noted = Noted { room: Some(MAX_EXPANDED_BYTES), ..Noted::default() };
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
        // The reader's own limit is the lower one, and has the same words as JSON's.
        budget: serde_saphyr::budget! { max_depth: MAX_STORED_NESTING + 1 },
    };
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Reader::<Spanned<String>> { place: &Place::ROOT, noted: &mut noted, key: std::marker::PhantomData }
            .deserialize(deserializer)
    })
    .map_err(|e| e.to_string())?;
    Ok(Parsed { value, duplicates: Duplicates::Lines(noted.lines), text: None })
}

/// Sorts findings as their fields stand in a JSON text. What is inside an unknown field is not reported.
pub fn in_document_order(text: &[u8], findings: Vec<Finding>) -> Vec<Finding> {
    let unknown: Vec<String> =
        findings.iter().filter(|f| f.problem == Problem::Unknown).map(|f| f.path.clone()).collect();
    let inside = |path: &str| {
        unknown
            .iter()
            .any(|u| path.strip_prefix(u.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])))
    };
    let mut findings: Vec<Finding> =
        findings.into_iter().filter(|f| f.problem == Problem::Unknown || !inside(&f.path)).collect();
    let mut ranker =
        Ranker { met: findings.iter().map(|f| (PathHash::of(&f.path), Met::default())).collect(), next: 0 };
    // The text was read before; if it does not read now, the findings stay as they are.
    let _ = Ranked { hash: PathHash::ROOT, ranker: &mut ranker }
        .deserialize(&mut serde_json::Deserializer::from_slice(text));
    findings.sort_by_key(|f| {
        let met = ranker.met.get(&PathHash::of(&f.path)).copied().unwrap_or_default();
        let rank = if f.problem == Problem::Duplicate { met.second } else { met.first };
        rank.unwrap_or(usize::MAX)
    });
    findings
}

/// What a reader notes besides the value.
#[derive(Default)]
struct Noted {
    findings: Findings,
    duplicates: usize,
    lines: Vec<String>,
    /// How much more may be read, where a short text can stand for a large value.
    room: Option<usize>,
}

impl Noted {
    fn count<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(bytes + VALUE_BYTES).ok_or_else(|| {
                E::custom(format_args!(
                    "the document is larger than {MAX_EXPANDED_BYTES} bytes with its aliases replaced"
                ))
            })?;
        }
        Ok(())
    }
}

/// Where in the document the reader is: a list of steps on the stack, so that no path is built unless it is shown.
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    const ROOT: Place<'static> = Place { above: None, step: Step::Root, depth: 0 };

    fn below(&'a self, step: Step<'a>) -> Place<'a> {
        Place { above: Some(self), step, depth: self.depth + 1 }
    }

    /// The path, as far as it is shown.
    fn shown(&self) -> String {
        let mut start = Start(String::new());
        // An error says that the start is complete.
        let _ = fmt::Write::write_fmt(&mut start, format_args!("{self}"));
        start.0
    }

    fn check_depth<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth >= MAX_STORED_NESTING { Err(E::custom(TOO_DEEP)) } else { Ok(()) }
    }
}

/// Takes a little more of a text than is shown of a path, so that it is seen that there is more.
struct Start(String);

impl fmt::Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (MAX_PATH_BYTES + 4).saturating_sub(self.0.len());
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            fmt::Display::fmt(above, f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if self.depth == 1 => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A key as a notation gives it.
trait Key: for<'de> Deserialize<'de> {
    fn take(self) -> (String, u64);
}

impl Key for String {
    fn take(self) -> (String, u64) {
        (self, 0)
    }
}

impl Key for Spanned<String> {
    fn take(self) -> (String, u64) {
        let line = self.referenced.line();
        (self.value, line)
    }
}

/// Builds a [`Value`] while watching for keys that stand twice.
struct Reader<'a, K> {
    place: &'a Place<'a>,
    noted: &'a mut Noted,
    key: std::marker::PhantomData<K>,
}

impl<'de, K: Key> DeserializeSeed<'de> for Reader<'_, K> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, K: Key> Visitor<'de> for Reader<'_, K> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Value, E> {
        self.noted.count(v.len())?;
        Ok(v.into())
    }

    fn visit_string<E: serde::de::Error>(self, v: String) -> Result<Value, E> {
        self.noted.count(v.len())?;
        Ok(v.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.place.check_depth()?;
        let mut items = Vec::new();
        loop {
            let place = self.place.below(Step::Index(items.len()));
            match seq.next_element_seed(Reader::<K> { place: &place, noted: &mut *self.noted, key: self.key })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
            self.noted.count(0)?;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.place.check_depth()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<K>()? {
            let (key, line) = key.take();
            self.noted.count(key.len())?;
            let place = self.place.below(Step::Key(&key));
            if map.contains_key(&key) {
                self.noted.duplicates += 1;
                let many = self.noted.findings.is_full() || self.noted.duplicates > MAX_DUPLICATE_FIELDS;
                if line == 0 && !many {
                    self.noted.findings.add(Problem::Duplicate, place.shown());
                } else if line > 0 && self.noted.lines.len() < MAX_DUPLICATE_LINES {
                    self.noted.lines.push(format!("line {line}: key {key:?} already set in map"));
                }
            }
            let value =
                access.next_value_seed(Reader::<K> { place: &place, noted: &mut *self.noted, key: self.key })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// A path's hash, extended step by step (FNV-1a).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PathHash(u64);

impl PathHash {
    const ROOT: PathHash = PathHash(0xcbf2_9ce4_8422_2325);

    fn of(path: &str) -> Self {
        PathHash::ROOT.plus(path)
    }

    fn plus(self, text: &str) -> Self {
        PathHash(text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn key(self, key: &str) -> Self {
        if self == PathHash::ROOT { self.plus(key) } else { self.plus(".").plus(key) }
    }
}

/// When a key was met, counted in keys.
#[derive(Clone, Copy, Default)]
struct Met {
    first: Option<usize>,
    second: Option<usize>,
}

struct Ranker {
    met: HashMap<PathHash, Met>,
    next: usize,
}

/// Walks a JSON text and tells the ranker each key's path.
struct Ranked<'a> {
    hash: PathHash,
    ranker: &'a mut Ranker,
}

impl<'de> DeserializeSeed<'de> for Ranked<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Ranked<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while seq
            .next_element_seed(Ranked { hash: self.hash.plus(&format!("[{index}]")), ranker: &mut *self.ranker })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<String>()? {
            let hash = self.hash.key(&key);
            self.ranker.next += 1;
            let now = Some(self.ranker.next);
            if let Some(met) = self.ranker.met.get_mut(&hash) {
                match met.first {
                    None => met.first = now,
                    Some(_) => met.second = met.second.or(now),
                }
            }
            access.next_value_seed(Ranked { hash, ranker: &mut *self.ranker })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
