//! Completion indexes as intervals: `0,2-4,7` and what can be asked of it.

use std::fmt;

/// Ordered intervals that neither overlap nor touch, of first and last index.
///
/// `Intervals::parse("0,2-4,7", 6)` has 0, 2, 3 and 4: what lies beyond the completions does not count any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<(u32, u32)>);

impl Intervals {
    /// What can be read of the text, as far as it is below `completions`.
    pub(crate) fn parse(text: &str, completions: u32) -> Self {
        let read = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.parse().ok()?, last.parse::<u32>().ok()?.min(completions.checked_sub(1)?)))
        });
        let mut all: Vec<(u32, u32)> = read.filter(|(first, last)| first <= last).collect();
        all.sort_unstable();
        Intervals(joined(all))
    }

    /// These and those.
    pub(crate) fn merged(&self, others: &Intervals) -> Self {
        let mut all: Vec<(u32, u32)> = self.0.iter().chain(&others.0).copied().collect();
        all.sort_unstable();
        Intervals(joined(all))
    }

    pub(crate) fn total(&self) -> usize {
        self.0.iter().map(|(first, last)| usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1)).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        let next = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(next).is_some_and(|(first, _)| *first <= index)
    }

    /// How many indexes are in both.
    pub(crate) fn in_common(&self, others: &Intervals) -> usize {
        let overlap = |(first, last): &(u32, u32)| {
            let from = others.0.partition_point(|(_, end)| end < first);
            let near = others.0[from..].iter().take_while(|(start, _)| start <= last);
            near.map(|(start, end)| usize::try_from(end.min(last) - start.max(first)).unwrap_or(0) + 1).sum::<usize>()
        };
        self.0.iter().map(overlap).sum()
    }

    /// The first `count` indexes below `completions` that are not in here.
    pub(crate) fn missing(&self, count: usize, completions: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut candidate = 0;
        for (first, last) in &self.0 {
            let room = count.saturating_sub(found.len());
            found.extend((candidate..(*first).min(completions)).take(room));
            candidate = last.saturating_add(1);
        }
        let room = count.saturating_sub(found.len());
        found.extend((candidate..completions).take(room));
        found
    }
}

impl FromIterator<u32> for Intervals {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        let mut all: Vec<(u32, u32)> = indexes.into_iter().map(|index| (index, index)).collect();
        all.sort_unstable();
        Intervals(joined(all))
    }
}

/// Two neighbours are written `3,4`, three `3-5`.
impl fmt::Display for Intervals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match last - first {
                0 => write!(formatter, "{comma}{first}")?,
                1 => write!(formatter, "{comma}{first},{last}")?,
                _ => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Makes one of what overlaps or touches.
fn joined(ordered: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ordered.len());
    for (first, last) in ordered {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}
