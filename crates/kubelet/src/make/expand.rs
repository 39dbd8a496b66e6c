//! `$(NAME)` in commands, arguments and values.
//!
//! - `$(NAME)` becomes the value of `NAME`, or stays as it is if there is none.
//! - `$$` becomes `$`, so `$$(NAME)` becomes the text `$(NAME)`.
//! - Any other `$` stays.

/// Puts values in the place of names; `value_of` is asked for each.
pub(crate) fn expand(text: &str, mut value_of: impl FnMut(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            after
        } else if let Some((name, after_name)) = after.strip_prefix('(').and_then(|open| open.split_once(')')) {
            expanded.push_str(&value_of(name).unwrap_or_else(|| format!("$({name})")));
            after_name
        } else {
            expanded.push('$');
            after
        };
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_the_values_it_names_and_no_others() {
        let value_of = |name: &str| match name {
            "A" => Some("apple".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("plain", "plain"),
            ("$(A)", "apple"),
            ("x$(A)y$(A)z", "xappleyapplez"),
            ("$(B)", "$(A)"),
            ("[$(EMPTY)]", "[]"),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$apple"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("100$", "100$"),
            ("$()", "$()"),
            ("ü$(A)ü$ü", "üappleü$ü"),
            ("$(A$(A)", "$(A$(A)"),
        ] {
            assert_eq!(expand(text, value_of), expected, "{text}");
        }
    }
}
