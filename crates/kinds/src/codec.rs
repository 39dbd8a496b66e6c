//! What is compiled once for each kind: reading an object, writing it, packing it.

use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mend::mended;
use crate::object::{Object, seen_as};
use crate::packed::{Dictionary, Packer};

/// A kind whose objects informers, loops and writers may handle.
///
/// Kubernetes' own kinds are that ([`builtin`](crate::builtin)). A kind of one's own becomes one by a line:
///
/// ```
/// # #[derive(kube::CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # #[kube(group = "example.dev", version = "v1", kind = "Website", namespaced)]
/// # pub struct WebsiteSpec { image: String }
/// impl pintle_kinds::Kind for Website {}
/// ```
pub trait Kind:
    Resource<Scope: 'static> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    const CODEC: &'static Codec = &Codec::of::<Self>();
}

/// How objects of one kind are read and written by those who do not know the kind.
pub struct Codec {
    decode: fn(&str) -> Result<Arc<dyn Object>, serde_json::Error>,
    /// False if the object is of another kind, or cannot be written.
    pack: fn(&dyn Object, &mut Packer<'_>) -> bool,
    type_name: fn() -> &'static str,
}

impl Codec {
    /// The code for one kind: the crate that calls this compiles it.
    pub const fn of<K: Kind>() -> Self {
        Codec { decode: decode::<K>, pack: pack::<K>, type_name: std::any::type_name::<K> }
    }

    /// Reads an object. What Go's types leave out and Rust's want is filled in if it cannot be read without.
    pub fn decode(&self, text: &str) -> Result<Arc<dyn Object>, serde_json::Error> {
        (self.decode)(text).or_else(|error| {
            let mended = mended(text).and_then(|text| (self.decode)(&text).ok());
            mended.ok_or(error)
        })
    }

    /// Writes the object's tokens; false if it cannot be written.
    pub fn pack(&self, object: &dyn Object, packer: &mut Packer<'_>) -> bool {
        (self.pack)(object, packer)
    }

    /// The object as JSON; nothing if it cannot be written.
    ///
    /// Packed and unpacked: to write JSON from the fields would be one more body of code for each kind.
    pub fn encode(&self, object: &dyn Object) -> Option<Vec<u8>> {
        let mut dictionary = Dictionary::default();
        let mut packer = Packer::packing(&mut dictionary);
        let is_written = self.pack(object, &mut packer);
        let packed = packer.packed();
        if is_written { dictionary.unpack(&packed) } else { None }
    }

    /// For messages.
    pub fn type_name(&self) -> &'static str {
        (self.type_name)()
    }
}

impl Debug for Codec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Codec").field(&self.type_name()).finish()
    }
}

/// From text, as clients read answers: reading bytes would compile every kind a second time.
fn decode<K: Kind>(text: &str) -> Result<Arc<dyn Object>, serde_json::Error> {
    let object: Arc<K> = serde_json::from_str(text).map(Arc::new)?;
    Ok(object)
}

fn pack<K: Kind>(object: &dyn Object, packer: &mut Packer<'_>) -> bool {
    seen_as::<K>(object).is_some_and(|object| object.serialize(packer).is_ok())
}
