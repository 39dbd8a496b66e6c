//! Indexes of Jobs as text, `0,2-4,7`: what is wrong with one, in the words that clients know.

/// Ordered, without overlaps, and each below the completions; or what is wrong.
pub fn read(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some((_, before)) = all.last().filter(|(_, before)| *before >= first) {
            return Err(format!("non-increasing order, previous: {before}, current: {first}"));
        }
        all.push((first, last));
    }
    Ok(all)
}

/// How many there are.
pub fn total(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().map(|(first, last)| last - first + 1).sum()
}

/// The first index that is in both.
pub fn overlap(a: &[(i64, i64)], b: &[(i64, i64)]) -> Option<i64> {
    a.iter().find_map(|(first, last)| {
        let next = b.partition_point(|(_, end)| end < first);
        b.get(next).filter(|(start, _)| start <= last).map(|(start, _)| *start.max(first))
    })
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = part.split('-').collect();
    let number = |text: &str| {
        let number =
            text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number < completions { Ok(number) } else { Err(format!("too large index: {text:?}")) }
    };
    match limits.as_slice() {
        [one] => number(one).map(|one| (one, one)),
        [first, last] => match (number(first)?, number(last)?) {
            (first, last) if first >= last => Err(format!("non-increasing order, previous: {first}, current: {last}")),
            both => Ok(both),
        },
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_that_mean_nothing_are_refused() {
        for (text, count) in [("", 0), ("0", 1), ("0,2-4,7", 5), ("9", 1)] {
            assert_eq!(total(&read(text, 10).unwrap()), count, "{text}");
        }
        let cases = [
            ("10", "too large index: \"10\""),
            ("0-10", "too large index: \"10\""),
            ("a", "cannot convert string to integer for index: \"a\""),
            ("1,", "cannot convert string to integer for index: \"\""),
            ("4-4", "non-increasing order, previous: 4, current: 4"),
            ("3,1", "non-increasing order, previous: 3, current: 1"),
            ("0-3,3", "non-increasing order, previous: 3, current: 3"),
        ];
        for (text, problem) in cases {
            assert_eq!(read(text, 10).unwrap_err(), problem, "{text}");
        }
        assert!(read("1-2-3", 10).unwrap_err().starts_with("the fragment \"1-2-3\" violates"));
    }

    #[test]
    fn an_index_that_is_in_two_lists_is_found() {
        let read = |text: &str| super::read(text, 100).unwrap();
        assert_eq!(overlap(&read("0-3,8"), &read("4-7,9")), None);
        assert_eq!(overlap(&read("0-3,8"), &read("5,8-9")), Some(8));
        assert_eq!(overlap(&read(""), &read("5")), None);
    }
}
