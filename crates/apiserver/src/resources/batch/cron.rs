//! When a CronJob runs: five fields, or a word for them. Here only whether a schedule can be read.

use pintle_meta::duration;

const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, in the words that clients know.
pub fn problem(schedule: &str) -> Option<String> {
    let schedule = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule,
    };
    if schedule.is_empty() {
        return Some("empty spec string".to_owned());
    }
    if schedule.starts_with('@') {
        let known = WORDS.contains(&schedule) || schedule.strip_prefix("@every ").and_then(duration::seconds).is_some();
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: {}", fields.len(), go_list(&fields)));
    }
    fields.iter().zip(FIELDS).find_map(|(field, (_, low, high, names))| {
        field.split(',').find_map(|part| part_problem(part, low, high, names))
    })
}

fn go_list(fields: &[&str]) -> String {
    format!("[{}]", fields.join(" "))
}

/// `*/5`, `1-5`, `mon`, `7/2`
fn part_problem(part: &str, low: u32, high: u32, names: &[&str]) -> Option<String> {
    let pieces: Vec<&str> = part.split('/').collect();
    if pieces.len() > 2 {
        return Some(format!("too many slashes: {part}"));
    }
    let ends: Vec<&str> = pieces[0].split('-').collect();
    let (start, end) = match ends.as_slice() {
        ["*" | "?"] => (low, high),
        [one] => match number(one, low, names) {
            Ok(n) => (n, if pieces.len() == 2 { high } else { n }),
            Err(problem) => return Some(problem),
        },
        [first, last] => match (number(first, low, names), number(last, low, names)) {
            (Ok(first), Ok(last)) => (first, last),
            (Err(problem), _) | (_, Err(problem)) => return Some(problem),
        },
        _ => return Some(format!("too many hyphens: {part}")),
    };
    let step = match pieces.get(1).map(|step| number(step, 0, &[])) {
        None => 1,
        Some(Ok(step)) => step,
        Some(Err(problem)) => return Some(problem),
    };
    match () {
        () if start < low => Some(format!("beginning of range ({start}) below minimum ({low}): {part}")),
        () if end > high => Some(format!("end of range ({end}) above maximum ({high}): {part}")),
        () if start > end => Some(format!("beginning of range ({start}) beyond end of range ({end}): {part}")),
        () if step == 0 => Some(format!("step of range should be a positive number: {part}")),
        () => None,
    }
}

fn number(text: &str, low: u32, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(i) = names.iter().position(|name| *name == lower) {
        return Ok(low + u32::try_from(i).unwrap_or(0));
    }
    text.parse::<u32>()
        .map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_that_never_comes_is_refused() {
        for good in ["*/5 * * * *", "0 0 1 jan *", "0 9-17 * * mon-fri", "@hourly", "@every 1h30m", "1,2,3 * ? * 0"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in ["", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *", "5-1 * * * *", "@sometimes", "@every x"] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
