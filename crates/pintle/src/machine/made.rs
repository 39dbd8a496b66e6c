//! What a node makes outside of its directory, written down so that it can be taken away.

use std::path::{Path, PathBuf};

use pintle_network::cni::Places;
use serde_json::{Value, json};

const FILE: &str = "made.json";

/// What was made for a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// The runtime of somebody else that has its Pods.
    pub(crate) runtime: Option<PathBuf>,
    pub(crate) bridge: String,
    /// Where logs of containers are.
    pub(crate) logs: Option<PathBuf>,
    /// Where the network plugin was put.
    pub(crate) places: Option<Places>,
}

impl Made {
    pub(super) fn new(runtime: Option<&Path>, bridge: &str, logs: Option<&Path>, places: Option<&Places>) -> Self {
        Made {
            runtime: runtime.map(Path::to_owned),
            bridge: bridge.to_owned(),
            logs: logs.map(Path::to_owned),
            places: places.cloned(),
        }
    }
}

pub(super) fn write(directory: &Path, made: &Made) -> std::io::Result<()> {
    let places =
        made.places.as_ref().map(|places| json!({"configuration": places.configuration, "plugins": places.plugins}));
    let text = json!({"runtime": made.runtime, "bridge": made.bridge, "logs": made.logs, "places": places});
    std::fs::write(directory.join(FILE), text.to_string())
}

/// What is written down below a node's directory; nothing if it never was a node.
pub(crate) fn read(directory: &Path) -> Option<Made> {
    let text = std::fs::read_to_string(directory.join(FILE)).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let places = (path(&value["places"]["configuration"])).zip(path(&value["places"]["plugins"]));
    Some(Made {
        runtime: path(&value["runtime"]),
        bridge: value["bridge"].as_str()?.to_owned(),
        logs: path(&value["logs"]),
        places: places.map(|(configuration, plugins)| Places { configuration, plugins }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()), None);
        let places = Places { configuration: "/etc/cni/net.d".into(), plugins: "/opt/cni/bin".into() };
        for places in [None, Some(&places)] {
            let made = Made::new(Some(Path::new("/run/c.sock")), "b0", Some(Path::new("/var/log/pods")), places);
            write(directory.path(), &made).unwrap();
            assert_eq!(read(directory.path()), Some(made));
        }
    }
}
