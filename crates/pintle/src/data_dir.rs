//! Where a cluster is kept when nobody says otherwise.

use std::path::PathBuf;

/// The directory that was asked for, or `$XDG_DATA_HOME/pintle`, or `~/.local/share/pintle`.
pub(crate) fn resolve(asked: Option<&PathBuf>) -> Option<PathBuf> {
    asked.cloned().or_else(|| default("pintle"))
}

/// The same for a machine that is a node of a cluster elsewhere: `pintle-node`.
pub(crate) fn resolve_node(asked: Option<&PathBuf>) -> Option<PathBuf> {
    asked.cloned().or_else(|| default("pintle-node"))
}

fn default(name: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let share = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    share.map(|directory| directory.join(name))
}
