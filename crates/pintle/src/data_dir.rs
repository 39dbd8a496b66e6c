//! Where a cluster is kept when nobody says otherwise.

use std::path::PathBuf;

/// The directory that was asked for, or `$XDG_DATA_HOME/pintle`, or `~/.local/share/pintle`.
pub(crate) fn resolve(asked: Option<&PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let default = || set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share"))).map(|d| d.join("pintle"));
    asked.cloned().or_else(default)
}
