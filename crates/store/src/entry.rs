//! One version of one key, and the hole its revision is written into.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::Revision;

/// One version of one key, immutable and shared by all who read it.
#[derive(Debug)]
pub struct Entry {
    pub key: Arc<str>,
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The revision that wrote this version.
    pub mod_revision: Revision,
    /// 1 for the version that created the key, one more for each that followed.
    pub version: u64,
    /// Unix milliseconds at which the key may be expired.
    pub expires_at: Option<i64>,
    /// Where the revision's digits stand in `value`.
    pub(crate) hole: Option<Range<usize>>,
    derived: OnceLock<Derived>,
}

/// What readers make of an entry's bytes, whatever that is.
type Derived = Arc<dyn Any + Send + Sync>;

impl Entry {
    /// What a reader computed from the bytes, computed at most once per version and shared by every
    /// reader. A writer that has it at hand gives it [with the bytes](Splice::deriving).
    ///
    /// There is one place for it, so all readers of a store agree on one `T`.
    ///
    /// # Panics
    ///
    /// If another `T` was derived from this version before.
    pub fn derive<T: Any + Send + Sync>(&self, make: impl FnOnce(&Entry) -> T) -> &T {
        self.derived
            .get_or_init(|| Arc::new(make(self)))
            .downcast_ref()
            .expect("all readers of a store derive the same type")
    }

    /// The same version of the key with other bytes, as a reader is to be shown it.
    #[must_use]
    pub fn shown_as(&self, value: Bytes) -> Entry {
        Entry {
            key: self.key.clone(),
            value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            version: self.version,
            expires_at: self.expires_at,
            hole: None,
            derived: OnceLock::new(),
        }
    }

    pub(crate) fn restore(
        key: Arc<str>,
        value: Bytes,
        [create_revision, mod_revision, version]: [u64; 3],
        expires_at: Option<i64>,
        hole: Option<Range<usize>>,
    ) -> Self {
        let derived = OnceLock::new();
        Self { key, value, create_revision, mod_revision, version, expires_at, hole, derived }
    }

    /// The version that a put at `revision` makes of `previous`.
    pub(crate) fn next(
        previous: Option<&Entry>,
        key: Arc<str>,
        value: Splice,
        expires_at: Option<i64>,
        revision: Revision,
    ) -> Self {
        let derived = value.derived.clone();
        let (value, hole) = value.fill(revision);
        let numbers = match previous {
            Some(previous) => [previous.create_revision, revision, previous.version + 1],
            None => [revision, revision, 1],
        };
        // A key's versions share one allocation of its name.
        let key = previous.map_or(key, |previous| Arc::clone(&previous.key));
        let entry = Self::restore(key, value, numbers, expires_at, hole);
        Self { derived: derived.map_or_else(OnceLock::new, OnceLock::from), ..entry }
    }

    /// The last version as a delete at `revision` shows it.
    pub(crate) fn deleted(&self, revision: Revision) -> Self {
        let (value, hole) = match &self.hole {
            None => (self.value.clone(), None),
            Some(hole) => {
                let (value, hole) = fill(&self.value[..hole.start], &self.value[hole.end..], revision);
                (value, Some(hole))
            }
        };
        let numbers = [self.create_revision, revision, self.version];
        Self::restore(Arc::clone(&self.key), value, numbers, self.expires_at, hole)
    }
}

/// Bytes with an optional hole into which the commit writes its revision as decimal digits.
///
/// For example `{"resourceVersion":""}` with a hole at 20 becomes `{"resourceVersion":"42"}` in
/// the transaction that takes revision 42.
#[derive(Debug, Clone, Default)]
pub struct Splice {
    bytes: Vec<u8>,
    hole_at: Option<usize>,
    derived: Option<Derived>,
}

impl Splice {
    /// Bytes, and the offset before which the digits go; an offset past the end is the end.
    pub fn new(bytes: impl Into<Vec<u8>>, hole_at: Option<usize>) -> Self {
        let bytes = bytes.into();
        let hole_at = hole_at.map(|at| at.min(bytes.len()));
        Self { bytes, hole_at, derived: None }
    }

    /// Bytes that do not carry their revision.
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), hole_at: None, derived: None }
    }

    /// With what readers would [derive](Entry::derive) from the bytes. It saves them the work where the entry is made in
    /// this process; where it comes back from elsewhere, it is derived as ever.
    #[must_use]
    pub fn deriving<T: Any + Send + Sync>(mut self, derived: T) -> Self {
        self.derived = Some(Arc::new(derived));
        self
    }

    /// The bytes without the revision, and where it goes: how an object looks before it is committed.
    pub fn parts(&self) -> (&[u8], Option<usize>) {
        (&self.bytes, self.hole_at)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn fill(self, revision: Revision) -> (Bytes, Option<Range<usize>>) {
        match self.hole_at {
            None => (Bytes::from(self.bytes), None),
            Some(at) => {
                let (value, hole) = fill(&self.bytes[..at], &self.bytes[at..], revision);
                (value, Some(hole))
            }
        }
    }
}

/// The buffer is made to fit: a value lives as long as its key, so slack would be kept with it.
pub(crate) fn fill(before: &[u8], after: &[u8], revision: Revision) -> (Bytes, Range<usize>) {
    let digits = revision.to_string();
    let mut value = Vec::with_capacity(before.len() + digits.len() + after.len());
    value.extend_from_slice(before);
    value.extend_from_slice(digits.as_bytes());
    value.extend_from_slice(after);
    let hole = before.len()..before.len() + digits.len();
    (Bytes::from(value), hole)
}
