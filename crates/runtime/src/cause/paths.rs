//! Which fields of an object changed, without making a copy of it: a serializer that writes nothing and hashes all.
//!
//! Worked example: of two ReplicaSets that differ in their replicas and their labels
//!
//! ```text
//! metadata.labels → 3f…   spec.replicas → 91…   spec.selector → 07…
//! metadata.labels → a1…   spec.replicas → 5c…   spec.selector → 07…     changed: metadata.labels, spec.replicas
//! ```

use std::fmt::Display;

use serde::ser::{self, Serialize};

/// How deep a path goes; what lies below is hashed as one.
const DEEPEST: usize = 2;

/// Fields that change with every write and say nothing.
const NOISE: [&str; 3] = ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation"];

/// Paths and the hash of what is there, in the order in which the object is written.
pub(super) type Digest = Vec<(String, u64)>;

pub(super) fn digest(object: &impl Serialize) -> Digest {
    let mut sink = Sink { path: String::new(), found: Vec::new() };
    // Only an object that cannot be written as JSON fails; what was found until then stands.
    let _ = object.serialize(Level { sink: &mut sink, depth: 0 });
    sink.found
}

/// Paths that are in one only, or not the same in both; sorted.
pub(super) fn changed(old: &Digest, new: &Digest) -> Vec<String> {
    let differs = |one: &Digest, other: &Digest| -> Vec<String> {
        let kept = one.iter().filter(|entry| !other.contains(entry) && !NOISE.contains(&entry.0.as_str()));
        kept.map(|(path, _)| path.clone()).collect()
    };
    let mut paths = differs(old, new);
    paths.extend(differs(new, old));
    paths.sort();
    paths.dedup();
    paths
}

struct Sink {
    path: String,
    found: Digest,
}

/// FNV-1a, which is enough to tell two states apart.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn eat(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Refused> {
        serde_json::to_writer(self, value).map_err(|_| Refused)
    }
}

impl std::io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Refused;

impl Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("not an object")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: Display>(_: T) -> Self {
        Refused
    }
}

/// Walks fields until the path is deep enough.
struct Level<'a> {
    sink: &'a mut Sink,
    depth: usize,
}

impl Level<'_> {
    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Refused> {
        let before = self.sink.path.len();
        if before > 0 {
            self.sink.path.push('.');
        }
        self.sink.path.push_str(name);
        let result = if self.depth + 1 < DEEPEST {
            value.serialize(Level { sink: self.sink, depth: self.depth + 1 })
        } else {
            self.whole(value)
        };
        self.sink.path.truncate(before);
        result
    }

    /// What is here is hashed as one.
    fn whole(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Refused> {
        let mut hash = Hash::new();
        hash.eat(value)?;
        self.sink.found.push((self.sink.path.clone(), hash.0));
        Ok(())
    }
}

macro_rules! leaves {
    ($($method:ident: $type:ty),+ $(,)?) => {$(
        fn $method(mut self, value: $type) -> Result<(), Refused> {
            self.whole(&value)
        }
    )+};
}

/// A sequence is one thing: its hash is taken element by element.
struct Elements<'a> {
    level: Level<'a>,
    hash: Hash,
}

impl<'a> Elements<'a> {
    fn of(level: Level<'a>) -> Self {
        Elements { level, hash: Hash::new() }
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Refused> {
        self.hash.eat(value)
    }

    fn finish(self) {
        let path = self.level.sink.path.clone();
        self.level.sink.found.push((path, self.hash.0));
    }
}

/// Fields of a map, whose keys come before their values.
struct Entries<'a> {
    level: Level<'a>,
    key: String,
}

impl<'a> ser::Serializer for Level<'a> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Elements<'a>;
    type SerializeTupleVariant = Elements<'a>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Level<'a>;
    type SerializeStructVariant = Level<'a>;

    leaves! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
    }

    fn serialize_none(self) -> Result<(), Refused> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        Ok(())
    }

    fn serialize_unit_variant(mut self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Refused> {
        self.whole(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.field(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Refused> {
        Ok(Elements::of(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements<'a>, Refused> {
        Ok(Elements::of(self))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>, Refused> {
        Ok(Elements::of(self))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Elements<'a>, Refused> {
        Ok(Elements::of(self))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a>, Refused> {
        Ok(Entries { level: self, key: String::new() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Level<'a>, Refused> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Level<'a>, Refused> {
        Ok(self)
    }
}

impl ser::SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        let key = serde_json::to_value(key).map_err(|_| Refused)?;
        self.key = key.as_str().map_or_else(|| key.to_string(), ToOwned::to_owned);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let key = std::mem::take(&mut self.key);
        self.level.field(&key, value)
    }

    fn end(self) -> Result<(), Refused> {
        Ok(())
    }
}

macro_rules! fields {
    ($($trait:ident),+) => {$(
        impl ser::$trait for Level<'_> {
            type Ok = ();
            type Error = Refused;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Refused> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Refused> {
                Ok(())
            }
        }
    )+};
}

fields!(SerializeStruct, SerializeStructVariant);

macro_rules! elements {
    ($($trait:ident::$method:ident),+) => {$(
        impl ser::$trait for Elements<'_> {
            type Ok = ();
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
                self.element(value)
            }

            fn end(self) -> Result<(), Refused> {
                self.finish();
                Ok(())
            }
        }
    )+};
}

elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);
