//! The form in which an informer holds one object, and the count of what all of them take.
//!
//! Bytes are counted by what is written, not by what the allocator gave: a packed object by its length, a decoded one by
//! its JSON's length times [`DECODED_FACTOR`], which was measured for Pods (docs/informers.md), each with its key.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_kinds::packed::{Dictionary, Packer};
use pintle_kinds::{Codec, Object};

use crate::key::Key;

/// What a byte of an object's JSON takes decoded: structs with room for every field that is absent.
const DECODED_FACTOR: usize = 8;

/// What a key and its place in the map take beside the letters.
const PLACE: usize = 96;

/// Packed objects that were read or changed a moment ago are also kept decoded, up to so many estimated bytes.
const RECENT: usize = 4 << 20;

pub(super) enum Form {
    Decoded(Arc<dyn Object>),
    Packed(Box<[u8]>),
}

/// An object as it is held, and what it is counted for.
pub(super) struct Held {
    pub(super) form: Form,
    size: usize,
}

pub(super) struct Keeping {
    codec: &'static Codec,
    dictionary: Dictionary,
    recent: Mutex<Recent>,
    budget: usize,
    /// What is kept decoded beside its packed form.
    recent_budget: usize,
    decoded: usize,
    packed: usize,
    /// What the last object would have taken that found no room decoded.
    refused: usize,
    list: List,
}

/// What is known of the list that is being taken in.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    /// Its objects, about, and those of them that are still to come; 0 if that is not known.
    all: usize,
    left: usize,
    /// Objects in a row that were larger than their share of the room.
    in_vain: usize,
}

/// After so many in a row the rest of a list is not even counted.
const ENOUGH: usize = 16;

/// A list that is so many times what fits fills the room. Of a longer one few would find any: the room is left to what changes.
const MUCH: usize = 4;

struct Recent {
    objects: BTreeMap<Key, (Arc<dyn Object>, usize)>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Keeping {
    /// Keeps so many estimated bytes of objects decoded.
    pub(super) fn new(codec: &'static Codec, budget: usize) -> Self {
        Keeping {
            codec,
            dictionary: Dictionary::default(),
            recent: Mutex::new(Recent { objects: BTreeMap::new(), order: VecDeque::new(), bytes: 0 }),
            budget,
            recent_budget: RECENT,
            decoded: 0,
            packed: 0,
            refused: 0,
            list: List::default(),
        }
    }

    /// A list of about so many objects comes; 0 if that is not known.
    pub(super) fn expect(&mut self, objects: usize) {
        self.list = List { all: objects, left: objects, in_vain: 0 };
    }

    /// Takes an object in, decoded if the budget allows, else packed. One of many, as in a list, is not one that a reader is
    /// likely to ask for next.
    pub(super) fn hold(&mut self, key: &Key, object: &Arc<dyn Object>, of_many: bool) -> Held {
        let place = PLACE + key.namespace().len() + key.name().len();
        let room = if of_many { self.share() } else { self.room() };
        if room > 0 {
            let mut counter = Packer::counting();
            let counted = self.codec.pack(object.as_ref(), &mut counter);
            let size = counter.json() * DECODED_FACTOR + place;
            if counted && size <= room {
                self.decoded += size;
                self.list.in_vain = 0;
                return Held { form: Form::Decoded(object.clone()), size };
            }
            // One large object must not keep all small ones out.
            match of_many {
                true => self.list.in_vain += 1,
                false => self.refused = size.min(self.budget / 16),
            }
        }
        let mut packer = Packer::packing(&mut self.dictionary);
        let written = self.codec.pack(object.as_ref(), &mut packer);
        let (size, packed) = (packer.json() * DECODED_FACTOR + place, packer.packed());
        if written {
            if !of_many {
                self.recent().put(key, object.clone(), size, self.recent_budget);
            }
            let held = Held { size: packed.len() + place, form: Form::Packed(packed) };
            self.packed += held.size;
            return held;
        }
        // What cannot be packed stays as it is: an informer never drops an object.
        self.decoded += size;
        Held { form: Form::Decoded(object.clone()), size }
    }

    /// What there is for one more decoded object. Counting is what a small cluster's changes cost, packing what a large one's
    /// do: where the last object found no room the next is not counted for nothing.
    fn room(&self) -> usize {
        Some(self.budget.saturating_sub(self.decoded)).filter(|room| *room > self.refused).unwrap_or(0)
    }

    /// The same for the next of a list: some times its part of the whole, or of what those before it left, so that no room is
    /// spent on those of very many whose names come first.
    fn share(&mut self) -> usize {
        let List { all, left, in_vain } = self.list;
        self.list.left = left.saturating_sub(1);
        if in_vain >= ENOUGH {
            return 0;
        }
        let room = self.budget.saturating_sub(self.decoded);
        room.min((self.budget / all.max(1)).max(room / left.max(1)).saturating_mul(MUCH))
    }

    pub(super) fn release(&mut self, key: &Key, held: &Held) {
        match held.form {
            Form::Decoded(_) => self.decoded -= held.size,
            Form::Packed(_) => {
                self.packed -= held.size;
                self.recent().remove(key);
            }
        }
    }

    /// The object, which a reader is likely to ask for again.
    pub(super) fn read(&self, key: &Key, held: &Held) -> Option<Arc<dyn Object>> {
        match &held.form {
            Form::Decoded(object) => Some(object.clone()),
            Form::Packed(packed) => {
                if let Some(object) = self.recent().get(key) {
                    return Some(object);
                }
                let (object, size) = self.decode(packed)?;
                self.recent().put(key, object.clone(), size, self.recent_budget);
                Some(object)
            }
        }
    }

    /// The object, as one of many: what was read a moment ago is not pushed out by it.
    pub(super) fn peek(&self, key: &Key, held: &Held) -> Option<Arc<dyn Object>> {
        match &held.form {
            Form::Decoded(object) => Some(object.clone()),
            Form::Packed(packed) => {
                let recent = self.recent().get(key);
                recent.or_else(|| self.decode(packed).map(|(object, _)| object))
            }
        }
    }

    fn decode(&self, packed: &[u8]) -> Option<(Arc<dyn Object>, usize)> {
        let json = self.dictionary.unpack(packed);
        let text = json.as_ref().and_then(|json| std::str::from_utf8(json).ok());
        let object = text.and_then(|text| self.codec.decode(text).ok());
        if object.is_none() {
            tracing::error!(
                "an object of type {} does not come back from its own JSON: check that what Serialize writes, \
                 Deserialize reads",
                self.codec.type_name()
            );
        }
        Some((object?, json.map_or(0, |json| json.len() * DECODED_FACTOR)))
    }

    /// Counted bytes of everything held.
    pub(super) fn bytes(&self) -> usize {
        self.decoded + self.packed + self.dictionary.bytes() + self.recent().bytes
    }

    pub(super) fn packs_all(&self) -> bool {
        (self.budget, self.recent_budget) == (0, 0)
    }

    /// From now on everything is packed; what is held decoded must be held again.
    pub(super) fn pack_all(&mut self) {
        (self.budget, self.recent_budget) = (0, 0);
        *self.recent() = Recent { objects: BTreeMap::new(), order: VecDeque::new(), bytes: 0 };
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn get(&self, key: &Key) -> Option<Arc<dyn Object>> {
        self.objects.get(key).map(|(object, _)| object.clone())
    }

    fn put(&mut self, key: &Key, object: Arc<dyn Object>, size: usize, budget: usize) {
        self.bytes += size;
        match self.objects.insert(key.clone(), (object, size)) {
            Some((_, before)) => self.bytes -= before,
            None => self.order.push_back(key.clone()),
        }
        while self.bytes > budget
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(&oldest);
        }
        // Keys of objects that went away still stand in the order.
        if self.order.len() > 2 * self.objects.len() + 64 {
            let objects = &self.objects;
            self.order.retain(|key| objects.contains_key(key));
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some((_, size)) = self.objects.remove(key) {
            self.bytes -= size;
        }
    }
}
