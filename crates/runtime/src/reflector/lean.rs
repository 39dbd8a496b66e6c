//! Reads an object without the part of it that says who owns which field: of `metadata.managedFields[*]` only `manager` and
//! `time` are read.
//!
//! What is skipped is a large share of what a server sends, and a tree of small maps when decoded. Who wrote, and when, is
//! kept. The walk wraps the deserializer four levels deep and gets out of the way everywhere else.

use std::fmt;

use serde::Deserialize;
use serde::de::value::UnitDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

/// An object that does not say who owns which field.
#[derive(Clone, Debug)]
pub(super) struct Lean<K>(pub(super) K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(Wrapped { inner: deserializer, level: Level::Object }).map(Lean)
    }
}

/// How deep the walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
    Managers,
    Manager,
    /// Here nothing is left out.
    Elsewhere,
    /// This value is.
    Skipped,
}

impl Level {
    fn below(self, key: Key) -> Level {
        match (self, key) {
            (Level::Object, Key::Metadata) => Level::Metadata,
            (Level::Metadata, Key::ManagedFields) => Level::Managers,
            (Level::Manager, Key::Other) => Level::Skipped,
            _ => Level::Elsewhere,
        }
    }
}

/// The keys that lead there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Metadata,
    ManagedFields,
    /// The manager, or the time.
    Writer,
    Other,
}

impl Key {
    fn of(key: &str) -> Key {
        match key {
            "metadata" => Key::Metadata,
            "managedFields" => Key::ManagedFields,
            "manager" | "time" => Key::Writer,
            _ => Key::Other,
        }
    }
}

struct Wrapped<T> {
    inner: T,
    level: Level,
}

/// What the walk meets is asked for as a map, a struct, a list or an option of these; all else is passed on.
macro_rules! pass_on {
    ($($method:ident),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        })*
    };
}

/// The same, for what may hold something that the walk looks for.
macro_rules! wrap {
    ($($method:ident),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(Wrapped { inner: visitor, level: self.level })
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Wrapped<D> {
    type Error = D::Error;

    wrap!(deserialize_any, deserialize_map, deserialize_seq, deserialize_option);

    pass_on!(
        deserialize_bool,
        deserialize_i8,
        deserialize_i16,
        deserialize_i32,
        deserialize_i64,
        deserialize_u8,
        deserialize_u16,
        deserialize_u32,
        deserialize_u64,
        deserialize_f32,
        deserialize_f64,
        deserialize_char,
        deserialize_str,
        deserialize_string,
        deserialize_bytes,
        deserialize_byte_buf,
        deserialize_unit,
        deserialize_identifier,
        deserialize_ignored_any
    );

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Wrapped { inner: visitor, level: self.level })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, Wrapped { inner: visitor, level: self.level })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Values without parts go to the visitor as they are.
macro_rules! visit {
    ($($method:ident: $type:ty),*) => {
        $(fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Wrapped<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    visit!(
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_f64: f64,
        visit_str: &str,
        visit_borrowed_str: &'de str,
        visit_string: String,
        visit_bytes: &[u8]
    );

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Wrapped { inner: deserializer, level: self.level })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Wrapped { inner: deserializer, level: self.level })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let level = if self.level == Level::Managers { Level::Manager } else { Level::Elsewhere };
        self.inner.visit_seq(Entries { access, level, key: Key::Other })
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Entries { access, level: self.level, key: Key::Other })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(access)
    }
}

/// The entries of a list or a map.
struct Entries<A> {
    access: A,
    level: Level,
    key: Key,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.access.next_element_seed(Value { seed, level: self.level })
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.key = Key::Other;
        self.access.next_key_seed(Named { inner: seed, key: &mut self.key })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.access.next_value_seed(Value { seed, level: self.level.below(self.key) })
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

/// A value somewhere on the walk, or beside it.
struct Value<T> {
    seed: T,
    level: Level,
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Value<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        match self.level {
            Level::Elsewhere => self.seed.deserialize(deserializer),
            Level::Skipped => {
                IgnoredAny::deserialize(deserializer)?;
                let nothing: UnitDeserializer<D::Error> = ().into_deserializer();
                self.seed.deserialize(nothing)
            }
            level => self.seed.deserialize(Wrapped { inner: deserializer, level }),
        }
    }
}

/// A key, noted on its way.
struct Named<'a, T> {
    inner: T,
    key: &'a mut Key,
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Named<'_, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.inner.deserialize(Named { inner: deserializer, key: self.key })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<'_, D> {
    type Error = D::Error;

    /// Keys are strings, however they are asked for.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_identifier(Named { inner: visitor, key: self.key })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Named<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<V::Value, E> {
        *self.key = Key::of(key);
        self.inner.visit_str(key)
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, key: &'de str) -> Result<V::Value, E> {
        *self.key = Key::of(key);
        self.inner.visit_borrowed_str(key)
    }

    fn visit_string<E: serde::de::Error>(self, key: String) -> Result<V::Value, E> {
        *self.key = Key::of(&key);
        self.inner.visit_string(key)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::api::DynamicObject;
    use kube::core::{PartialObjectMeta, WatchEvent};
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "labels": {"metadata": "x", "managedFields": "y", "fieldsV1": "z"},
                "managedFields": [
                    {"manager": "kubectl", "operation": "Apply", "time": "2026-11-16T04:05:29Z", "fieldsType": "FieldsV1",
                     "apiVersion": "v1", "fieldsV1": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}}}}}},
                    {"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": {}}
                ]
            },
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
                     "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"managedFields": "kept"}},
            "status": {"phase": "Running", "conditions": []}
        })
    }

    /// What the default retention may lose on the way in.
    fn without_owned_fields(mut object: Value) -> Value {
        for manager in object["metadata"]["managedFields"].as_array_mut().unwrap() {
            manager.as_object_mut().unwrap().retain(|key, _| key == "manager" || key == "time");
        }
        object
    }

    #[test]
    fn nothing_but_who_owns_which_field_is_lost() {
        let expected: Pod = serde_json::from_value(without_owned_fields(pod())).unwrap();
        let lean: Lean<Pod> = serde_json::from_str(&pod().to_string()).unwrap();
        assert_eq!(lean.0, expected);
        let dynamic: Lean<DynamicObject> = serde_json::from_str(&pod().to_string()).unwrap();
        assert_eq!(serde_json::to_value(dynamic.0).unwrap(), without_owned_fields(pod()));
        let partial: Lean<PartialObjectMeta<DynamicObject>> = serde_json::from_str(&pod().to_string()).unwrap();
        assert_eq!(partial.0.metadata, expected.metadata);
    }

    #[test]
    fn an_event_is_read_whichever_of_its_two_parts_comes_first() {
        for text in
            [format!(r#"{{"type":"ADDED","object":{}}}"#, pod()), format!(r#"{{"object":{},"type":"ADDED"}}"#, pod())]
        {
            let event: WatchEvent<Lean<Pod>> = serde_json::from_str(&text).unwrap();
            let WatchEvent::Added(Lean(pod)) = event else { panic!("{event:?}") };
            let managers = pod.metadata.managed_fields.unwrap();
            assert_eq!(
                managers.iter().filter_map(|entry| entry.manager.as_deref()).collect::<Vec<_>>(),
                ["kubectl", "kubelet"]
            );
            assert!(managers.iter().all(|entry| entry.fields_v1.is_none()));
        }
    }

    #[test]
    fn an_object_of_the_wrong_shape_is_an_error() {
        for text in [r#"{"metadata":{"managedFields":7}}"#, r#"{"metadata":[]}"#, r#"{"metadata":{"name":{}}}"#, "3"] {
            assert!(serde_json::from_str::<Lean<ConfigMap>>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Lean<ConfigMap>>(r#"{"metadata":{"managedFields":null}}"#).is_ok());
    }
}
