//! First-in-first-out lines through one array of slots: a slot stands in one line at most, and leaves it from anywhere
//! in one step.
//!
//! Worked example: slots 4, 1 and 2 stand in line 0, slot 3 in line 1.
//!
//! ```text
//! line 0: first 4, last 2     links: 4 → 1 → 2
//! line 1: first 3, last 3
//! ```

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) first: u32,
    last: u32,
    pub(super) length: usize,
}

impl Line {
    pub(super) const EMPTY: Line = Line { first: NONE, last: NONE, length: 0 };
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    pub(super) after: u32,
}

impl Link {
    pub(super) const NOWHERE: Link = Link { before: NONE, after: NONE };
}

/// What the lines go through.
pub(super) trait Linked {
    fn link(&mut self) -> &mut Link;
}

impl Line {
    pub(super) fn push<S: Linked>(&mut self, slots: &mut [S], slot: u32) {
        *slots[slot as usize].link() = Link { before: self.last, after: NONE };
        match self.last {
            NONE => self.first = slot,
            last => slots[last as usize].link().after = slot,
        }
        self.last = slot;
        self.length += 1;
    }

    /// The slot must stand in this line.
    pub(super) fn remove<S: Linked>(&mut self, slots: &mut [S], slot: u32) {
        let Link { before, after } = std::mem::replace(slots[slot as usize].link(), Link::NOWHERE);
        match before {
            NONE => self.first = after,
            before => slots[before as usize].link().after = after,
        }
        match after {
            NONE => self.last = before,
            after => slots[after as usize].link().before = before,
        }
        self.length -= 1;
    }
}
