//! The files of a project: those of `operators/website`, with the asked-for names in the place of `Website` and its like.

use super::Source;
use super::names::Names;

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../../operators/website/", $path))
    };
}

/// Inside this repository it is a part of its workspace; elsewhere it is one of its own, whatever stands around it.
const ALONE: (&str, &str) = ("publish = false\n", "publish = false\n\n[workspace]\n");

/// Where each file goes, and what stands in the template for it.
const TEMPLATE: &[(&str, &str)] = &[
    ("Cargo.toml", template!("Cargo.toml")),
    (".gitignore", template!(".gitignore")),
    ("README.md", template!("README.md")),
    ("src/lib.rs", template!("src/lib.rs")),
    ("src/main.rs", template!("src/main.rs")),
    ("src/types.rs", template!("src/types.rs")),
    ("src/plan.rs", template!("src/plan.rs")),
    ("src/reconcile.rs", template!("src/reconcile.rs")),
    ("tests/plan.rs", template!("tests/plan.rs")),
    ("tests/operator.rs", template!("tests/operator.rs")),
    ("manifests/crd.yaml", template!("manifests/crd.yaml")),
    ("manifests/rbac.yaml", template!("manifests/rbac.yaml")),
    ("manifests/deployment.yaml", template!("manifests/deployment.yaml")),
    ("manifests/example.yaml", template!("manifests/example.yaml")),
];

/// Every file, by its path in the project.
pub(super) fn project(names: &Names, source: &Source) -> Vec<(&'static str, String)> {
    let (runtime, testkit) = (source.of("runtime"), source.of("testkit"));
    // Longer words first: the first that fits is taken.
    let words = [
        ("website-operator", names.project.as_str()),
        ("website_operator", &names.library),
        (r#"path = "../../crates/runtime""#, &runtime),
        (r#"path = "../../crates/testkit""#, &testkit),
        ALONE,
        ("example.com", &names.group),
        ("websites", &names.plural),
        ("website", &names.singular),
        ("Website", &names.kind),
    ];
    TEMPLATE.iter().map(|(path, text)| (*path, replace(text, &words))).collect()
}

/// Puts the second of each pair in the place of the first, in one pass: what was put in is not looked at again.
fn replace(text: &str, words: &[(&str, &str)]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        match words.iter().find(|(word, _)| rest.starts_with(word)) {
            Some((word, by)) => {
                replaced.push_str(by);
                rest = &rest[word.len()..];
            }
            None => {
                replaced.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_contains_a_word_of_the_template_is_not_replaced_twice() {
        let words = [("website-operator", "my-website"), ("website", "website-operator")];
        assert_eq!(replace("website-operator: website → Ω", &words), "my-website: website-operator → Ω");
    }

    #[test]
    fn nothing_of_the_template_is_left_in_a_project() {
        let names = Names::of("cache", "shop.test", None).unwrap();
        for (path, text) in project(&names, &Source::Repository("https://example.test")) {
            assert!(!text.to_lowercase().contains("website") && !text.contains("../crates"), "{path}");
            assert_eq!(text.contains("[workspace]"), path == "Cargo.toml");
        }
    }
}
