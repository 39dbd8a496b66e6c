//! The documentation of fields, for columns and `kubectl explain`.

/// What a column shows. Names of fields (`core.v1.PodStatus.phase`) have no words of ours yet; anything else is
/// already a sentence.
pub fn describe(about: &str) -> String {
    let names_a_field = !about.contains(' ') && about.contains('.');
    if names_a_field { String::new() } else { about.to_owned() }
}
