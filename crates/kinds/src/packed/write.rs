//! Writes an object as tokens, straight from its fields: the JSON that they stand for is never made.

use std::fmt::{self, Display};

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::values::{plain, time_digits, uid_bytes, varint};
use super::{Dictionary, tag, word};

/// What `serde_json` calls text that is JSON already; it means nothing to others.
const RAW: &str = "$serde_json::private::RawValue";

/// The room for packing that is kept from one object to the next, at most.
const LARGE: usize = 64 << 10;

/// Counts the JSON of an object, and packs it if it is given a dictionary.
pub struct Packer<'a> {
    dictionary: Option<&'a mut Dictionary>,
    out: Vec<u8>,
    json: usize,
    /// A key of a map is being written, which is text whatever it was before.
    naming: bool,
}

/// An object that cannot be packed.
#[derive(Debug)]
pub struct Refused(String);

impl Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl serde::ser::Error for Refused {
    fn custom<T: Display>(message: T) -> Self {
        Refused(message.to_string())
    }
}

impl<'a> Packer<'a> {
    pub fn counting() -> Self {
        Packer { dictionary: None, out: Vec::new(), json: 0, naming: false }
    }

    pub fn packing(dictionary: &'a mut Dictionary) -> Self {
        let mut out = std::mem::take(&mut dictionary.packing);
        out.clear();
        Packer { dictionary: Some(dictionary), out, json: 0, naming: false }
    }

    /// About how long the JSON is.
    pub fn json(&self) -> usize {
        self.json
    }

    /// What was packed, with no room to spare; the room that it was packed in is kept.
    pub fn packed(self) -> Box<[u8]> {
        let packed = Box::from(self.out.as_slice());
        // One very large object must not make every informer keep its room.
        if let Some(dictionary) = self.dictionary.filter(|_| self.out.capacity() <= LARGE) {
            dictionary.packing = self.out;
        }
        packed
    }

    fn token(&mut self, token: u8, length: usize) -> Result<(), Refused> {
        if self.naming {
            return Err(Refused::custom("a key must be text"));
        }
        self.json += length;
        if self.dictionary.is_some() {
            self.out.push(token);
        }
        Ok(())
    }

    /// A name that the program has only once: found again by where it stands, without a look at its letters.
    fn field(&mut self, name: &'static str) {
        self.json += name.len() + 3;
        let Some(dictionary) = self.dictionary.as_deref_mut() else { return };
        match dictionary.field(name) {
            Some(code) => word(&mut self.out, code),
            None => self.letters(name),
        }
    }

    fn string(&mut self, string: &str) {
        self.json += string.len() + 3;
        let Some(dictionary) = self.dictionary.as_deref_mut() else { return };
        let bytes = string.as_bytes();
        // What is a word is nothing else.
        if let Some(code) = dictionary.words.at_hand(string) {
            word(&mut self.out, code);
        } else if let Some(time) = time_digits(bytes) {
            self.out.push(tag::TIME);
            self.out.extend_from_slice(&time);
        } else if let Some(uid) = uid_bytes(bytes) {
            // The uid of an owner comes with each of its objects.
            match dictionary.words.code_of(string) {
                Some(code) => word(&mut self.out, code),
                None => {
                    self.out.push(tag::UID);
                    self.out.extend_from_slice(&uid);
                }
            }
        } else if let Some(digits) = plain(bytes) {
            self.out.push(tag::DIGITS);
            varint(&mut self.out, digits);
        } else if needs_escapes(bytes) {
            self.escaped(string);
        } else {
            self.letters(string);
        }
    }

    /// A string that stands between quotes as it is.
    fn letters(&mut self, string: &str) {
        let Some(dictionary) = self.dictionary.as_deref_mut() else { return };
        match dictionary.words.code_of(string) {
            Some(code) => word(&mut self.out, code),
            None => {
                self.out.push(tag::STRING);
                varint(&mut self.out, string.len() as u64);
                self.out.extend_from_slice(string.as_bytes());
            }
        }
    }

    fn escaped(&mut self, string: &str) {
        let quoted = serde_json::Value::from(string).to_string();
        self.letters(quoted.get(1..quoted.len() - 1).unwrap_or_default());
    }

    fn natural(&mut self, number: u64) {
        self.json += 2;
        if self.dictionary.is_some() {
            self.out.push(if self.naming { tag::DIGITS } else { tag::PLAIN_NUMBER });
            varint(&mut self.out, number);
        }
    }

    fn number(&mut self, digits: &str) {
        self.json += digits.len() + 1;
        if self.dictionary.is_some() {
            self.out.push(if self.naming { tag::STRING } else { tag::NUMBER });
            varint(&mut self.out, digits.len() as u64);
            self.out.extend_from_slice(digits.as_bytes());
        }
    }
}

/// Looks at all bytes, many at a time: hardly a string has one of these.
fn needs_escapes(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |needs, byte| needs | (*byte < b' ') | (*byte == b'"') | (*byte == b'\\'))
}

macro_rules! naturals {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, number: $type) -> Result<(), Refused> {
            self.natural(u64::from(number));
            Ok(())
        })*
    };
}

macro_rules! integers {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, number: $type) -> Result<(), Refused> {
            match u64::try_from(number) {
                Ok(natural) => self.natural(natural),
                Err(_) => self.number(&number.to_string()),
            }
            Ok(())
        })*
    };
}

impl<'p, 'a> Serializer for &'p mut Packer<'a> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Open<'p, 'a>;
    type SerializeTuple = Open<'p, 'a>;
    type SerializeTupleStruct = Open<'p, 'a>;
    type SerializeTupleVariant = Open<'p, 'a>;
    type SerializeMap = Open<'p, 'a>;
    type SerializeStruct = Open<'p, 'a>;
    type SerializeStructVariant = Open<'p, 'a>;

    naturals!(serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);
    integers!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);

    fn serialize_bool(self, value: bool) -> Result<(), Refused> {
        match self.naming {
            true => self.letters(if value { "true" } else { "false" }),
            false => self.token(if value { tag::TRUE } else { tag::FALSE }, 5)?,
        }
        Ok(())
    }

    fn serialize_f32(self, number: f32) -> Result<(), Refused> {
        match number.is_finite() {
            true => self.number(&serde_json::to_string(&number).map_err(Refused::custom)?),
            false => self.token(tag::NULL, 5)?,
        }
        Ok(())
    }

    fn serialize_f64(self, number: f64) -> Result<(), Refused> {
        match serde_json::Number::from_f64(number) {
            Some(number) => self.number(&number.to_string()),
            None => self.token(tag::NULL, 5)?,
        }
        Ok(())
    }

    fn serialize_char(self, letter: char) -> Result<(), Refused> {
        self.string(letter.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, string: &str) -> Result<(), Refused> {
        self.string(string);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Refused> {
        bytes.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Refused> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        self.token(tag::NULL, 5)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Refused> {
        self.string(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        let mut object = self.serialize_map(Some(1))?;
        object.serialize_entry(variant, value)?;
        SerializeMap::end(object)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'p, 'a>, Refused> {
        self.token(tag::ARRAY, 1)?;
        Ok(Open { packer: self, ends: &[tag::ARRAY_END] })
    }

    fn serialize_tuple(self, length: usize) -> Result<Open<'p, 'a>, Refused> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Open<'p, 'a>, Refused> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'p, 'a>, Refused> {
        self.token(tag::OBJECT, 1)?;
        self.string(variant);
        self.token(tag::ARRAY, 1)?;
        Ok(Open { packer: self, ends: &[tag::ARRAY_END, tag::OBJECT_END] })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'p, 'a>, Refused> {
        self.token(tag::OBJECT, 1)?;
        Ok(Open { packer: self, ends: &[tag::OBJECT_END] })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'p, 'a>, Refused> {
        match name {
            RAW => Err(Refused::custom("raw JSON is not taken apart")),
            _ => self.serialize_map(None),
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'p, 'a>, Refused> {
        self.token(tag::OBJECT, 1)?;
        self.string(variant);
        self.token(tag::OBJECT, 1)?;
        Ok(Open { packer: self, ends: &[tag::OBJECT_END, tag::OBJECT_END] })
    }
}

/// A list or an object that has begun.
pub struct Open<'p, 'a> {
    packer: &'p mut Packer<'a>,
    ends: &'static [u8],
}

impl Open<'_, '_> {
    fn close(self) -> Result<(), Refused> {
        self.ends.iter().try_for_each(|end| self.packer.token(*end, 1))
    }
}

macro_rules! lists {
    ($($trait:ident $method:ident),*) => {
        $(impl $trait for Open<'_, '_> {
            type Ok = ();
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
                value.serialize(&mut *self.packer)
            }

            fn end(self) -> Result<(), Refused> {
                self.close()
            }
        })*
    };
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {
        $(impl $trait for Open<'_, '_> {
            type Ok = ();
            type Error = Refused;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Refused> {
                self.packer.field(name);
                value.serialize(&mut *self.packer)
            }

            fn end(self) -> Result<(), Refused> {
                self.close()
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        self.packer.naming = true;
        key.serialize(&mut *self.packer)?;
        self.packer.naming = false;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        value.serialize(&mut *self.packer)
    }

    fn end(self) -> Result<(), Refused> {
        self.close()
    }
}
