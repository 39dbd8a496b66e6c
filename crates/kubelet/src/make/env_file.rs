//! Variables from a file that an init container left in a volume: lines like `NAME='value'`.
//!
//! - A value stands in single quotes, in which everything stands for itself, line breaks too.
//! - `NAME= 'value'`, with a space, leaves the variable empty, as in a shell.
//! - Lines that are empty or begin with `#` say nothing; a comment may follow the closing quote.

/// The value of a variable; nothing if the file does not set it.
pub(super) fn value(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let wrong = |what: &str| format!("invalid environment variable format at line {}: {what}", number + 1);
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        if name.is_empty() {
            return Err(wrong("empty variable name"));
        }
        if name.ends_with([' ', '\t']) {
            return Err(wrong("whitespace before '=' is not allowed"));
        }
        let value = if rest.starts_with([' ', '\t']) {
            String::new()
        } else {
            let opened = rest.strip_prefix('\'').ok_or_else(|| wrong("value must be enclosed in single quotes"))?;
            let (value, after) = quoted(opened, &mut lines).ok_or_else(|| wrong("unclosed single quote"))?;
            let after = after.trim_start_matches([' ', '\t']);
            if !after.is_empty() && !after.starts_with('#') {
                return Err(wrong("unexpected content after closing quote"));
            }
            value
        };
        if name == key {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// What stands before the closing quote, and what follows it on its line.
fn quoted<'a>(opened: &'a str, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Option<(String, &'a str)> {
    let (mut value, mut rest) = (String::new(), opened);
    loop {
        if let Some((end, after)) = rest.split_once('\'') {
            value.push_str(end);
            return Some((value, after));
        }
        value.push_str(rest);
        value.push('\n');
        rest = lines.next()?.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_in_a_file_that_a_shell_could_read() {
        let text = "# mine\n\n  A='one' # first\nB='$(A) \"two\"\nlines'\nEMPTY= 'x'\nC=''\n";
        for (key, expected) in
            [("A", Some("one")), ("B", Some("$(A) \"two\"\nlines")), ("EMPTY", Some("")), ("C", Some("")), ("D", None)]
        {
            assert_eq!(value(text, key).unwrap().as_deref(), expected, "{key}");
        }
        for (text, what) in [
            ("A", "line 1: missing '='"),
            ("\n='x'", "line 2: empty variable name"),
            ("A ='x'", "whitespace before '='"),
            ("A=x", "value must be enclosed in single quotes"),
            ("A='x", "unclosed single quote"),
            ("A='x'y", "unexpected content after closing quote"),
        ] {
            assert!(value(text, "Z").unwrap_err().contains(what), "{text}");
        }
    }
}
