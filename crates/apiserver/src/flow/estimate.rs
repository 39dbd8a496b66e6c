//! How many seats a call needs: one, or more for a list that was long the last time.

use crate::call::Call;
use crate::verb::Verb;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A seat is for a list of this many bytes.
const BYTES_PER_SEAT: usize = 100_000;

/// No call needs more.
pub const MAX_SEATS: u32 = 10;

/// Collections whose size is remembered; one more forgets them all.
const REMEMBERED: usize = 10_000;

/// How long lists were, by the prefix of the collection.
#[derive(Default)]
pub struct Sizes(Mutex<HashMap<String, Size>>);

#[derive(Clone, Copy)]
struct Size {
    objects: usize,
    bytes: usize,
}

impl Sizes {
    /// A list of a whole collection was this long.
    pub fn note(&self, scope: &str, objects: usize, bytes: usize) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(scope) {
            Some(size) => *size = Size { objects, bytes },
            None if bytes <= BYTES_PER_SEAT => {}
            None => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(scope.to_owned(), Size { objects, bytes });
            }
        }
    }

    pub fn seats(&self, call: &Call, widest: u32) -> u32 {
        if !lists(call) || widest <= 1 {
            return 1;
        }
        let Some(resource) = &call.resource else { return 1 };
        let scope = resource.scope(call.namespace());
        let Some(size) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&scope).copied() else { return 1 };
        let limit = call.query.get("limit").parse::<usize>().ok().filter(|limit| *limit > 0);
        let bytes = match limit.filter(|limit| *limit < size.objects) {
            Some(limit) => size.bytes / size.objects.max(1) * limit,
            None => size.bytes,
        };
        let seats = u32::try_from(bytes.div_ceil(BYTES_PER_SEAT)).unwrap_or(MAX_SEATS);
        seats.clamp(1, widest.min(MAX_SEATS))
    }
}

/// Does it read a whole collection? A watch does, unless it says from where it goes on.
fn lists(call: &Call) -> bool {
    let one = !call.name().is_empty();
    match call.verb {
        Verb::List => !one,
        Verb::Watch => {
            let from_start =
                call.query.flag("sendInitialEvents") || matches!(call.query.get("resourceVersion"), "" | "0");
            from_start && !one
        }
        _ => false,
    }
}
