//! One field of a schedule: which of its numbers are meant.

/// What numbers a field may have, and names for them.
pub(super) struct Bounds {
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

pub(super) const MINUTE: Bounds = Bounds { first: 0, last: 59, names: &[] };
pub(super) const HOUR: Bounds = Bounds { first: 0, last: 23, names: &[] };
pub(super) const DAY_OF_MONTH: Bounds = Bounds { first: 1, last: 31, names: &[] };
pub(super) const MONTH: Bounds = Bounds {
    first: 1,
    last: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const DAY_OF_WEEK: Bounds =
    Bounds { first: 0, last: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The numbers as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// Whether it says `*` or `?`: then of two days only the other one restricts.
    pub(super) is_any: bool,
}

impl Field {
    pub(super) fn has(&self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits.checked_shr(number).unwrap_or(0) & 1 == 1)
    }
}

impl Bounds {
    pub(super) fn read(&self, field: &str) -> Result<Field, String> {
        let mut all = Field::default();
        for part in field.split(',').filter(|part| !part.is_empty()) {
            let read = self.read_part(part)?;
            all = Field { bits: all.bits | read.bits, is_any: all.is_any || read.is_any };
        }
        Ok(all)
    }

    /// `*/5`, `1-5`, `mon`, `7/2`
    fn read_part(&self, part: &str) -> Result<Field, String> {
        let pieces: Vec<&str> = part.split('/').collect();
        let ends: Vec<&str> = pieces[0].split('-').collect();
        let mut is_any = matches!(ends[0], "*" | "?");
        let (first, mut last) = match ends.as_slice() {
            _ if is_any => (self.first, self.last),
            [one] => {
                let one = self.number(one)?;
                (one, one)
            }
            [first, last] => (self.number(first)?, self.number(last)?),
            [first, ..] => {
                self.number(first)?;
                return Err(format!("too many hyphens: {part}"));
            }
            [] => return Err(format!("failed to parse int from {part}")),
        };
        let step = match pieces.as_slice() {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                if ends.len() == 1 {
                    last = self.last;
                }
                is_any &= step <= 1;
                step
            }
            _ => return Err(format!("too many slashes: {part}")),
        };
        if first < self.first {
            return Err(format!("beginning of range ({first}) below minimum ({}): {part}", self.first));
        }
        if last > self.last {
            return Err(format!("end of range ({last}) above maximum ({}): {part}", self.last));
        }
        if first > last {
            return Err(format!("beginning of range ({first}) beyond end of range ({last}): {part}"));
        }
        let step = usize::try_from(step).ok().filter(|step| *step > 0);
        let step = step.ok_or_else(|| format!("step of range should be a positive number: {part}"))?;
        let bits = (first..=last).step_by(step).fold(0, |bits, number| bits | 1_u64 << number);
        Ok(Field { bits, is_any })
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_lowercase();
        match (self.first..).zip(self.names).find(|(_, name)| **name == lower) {
            Some((named, _)) => Ok(named),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    let problem = |what: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {what}");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(problem("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| problem("value out of range"))?;
    match u32::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Err(_) => Ok(u32::MAX),
    }
}
