//! Puts the plugin and its configuration where a runtime looks for them.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::config::conflist;
use super::{LOOPBACK, NAME};
use crate::address::Range;
use crate::bridge::Bridge;

/// The file with the configuration; another network plugin that is installed later takes an earlier name.
pub const FILE: &str = "99-pintle.conflist";

/// Where a runtime looks for plugins, and for their configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub configuration: PathBuf,
    pub plugins: PathBuf,
}

impl Places {
    /// The runtime finds this program under the plugin's names. A `loopback` of somebody else stays.
    pub fn link(&self, program: &Path) -> io::Result<()> {
        std::fs::create_dir_all(&self.plugins)?;
        for name in [NAME, LOOPBACK] {
            let file = self.plugins.join(name);
            let is_foreign = file.symlink_metadata().is_ok_and(|found| !found.is_symlink());
            if (name == LOOPBACK && is_foreign) || std::fs::read_link(&file).is_ok_and(|to| to == program) {
                continue;
            }
            let new = self.plugins.join(format!(".{name}.new"));
            let _ = std::fs::remove_file(&new);
            symlink(program, &new)?;
            std::fs::rename(&new, &file)?;
        }
        Ok(())
    }

    /// From now on Pods of the runtime get their network from this bridge.
    pub fn configure(&self, bridge: &Bridge) -> io::Result<PathBuf> {
        std::fs::create_dir_all(&self.configuration)?;
        let (file, text) = (self.configuration.join(FILE), conflist(bridge).to_string());
        if std::fs::read_to_string(&file).is_ok_and(|there| there == text) {
            return Ok(file);
        }
        // Under a name that the runtime does not read, until it is whole.
        let new = self.configuration.join(format!(".{FILE}.new"));
        std::fs::write(&new, text)?;
        std::fs::rename(&new, &file)?;
        Ok(file)
    }

    /// The addresses of all Pods, as the configuration says.
    pub fn cluster(&self) -> Vec<Range> {
        let plugin = self.plugin();
        let ranges = plugin["cluster"].as_array().into_iter().flatten();
        ranges.filter_map(|range| range.as_str()?.parse().ok()).collect()
    }

    /// Whether another cluster of this machine has its bridge there.
    pub fn is_of_other(&self, bridge: &str) -> bool {
        self.plugin()["bridge"].as_str().is_some_and(|there| there != bridge)
    }

    fn plugin(&self) -> Value {
        let text = std::fs::read_to_string(self.configuration.join(FILE)).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["plugins"][0].clone()
    }

    /// The files that are ours, for `pintle reset`.
    pub fn ours(&self) -> Vec<PathBuf> {
        let is_link = |file: &PathBuf| {
            std::fs::read_link(file).is_ok_and(|to| to.file_name().is_some_and(|name| name != LOOPBACK))
        };
        let links = [NAME, LOOPBACK].map(|name| self.plugins.join(name)).into_iter().filter(is_link);
        links.chain([self.configuration.join(FILE)]).filter(|file| file.symlink_metadata().is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_finds_the_plugin_and_what_was_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places { configuration: directory.path().join("net.d"), plugins: directory.path().join("bin") };
        std::fs::create_dir_all(&places.plugins).unwrap();
        std::fs::write(places.plugins.join(LOOPBACK), "somebody's").unwrap();
        for _ in 0..2 {
            places.link(Path::new("/usr/bin/pintle")).unwrap();
        }
        assert_eq!(std::fs::read_link(places.plugins.join(NAME)).unwrap(), Path::new("/usr/bin/pintle"));
        assert_eq!(std::fs::read_to_string(places.plugins.join(LOOPBACK)).unwrap(), "somebody's");
        let bridge = Bridge {
            name: "b0".to_owned(),
            pods: vec!["10.9.0.0/24".parse().unwrap()],
            cluster: Vec::new(),
            services: Vec::new(),
            books: directory.path().join("books"),
        };
        assert!(!places.is_of_other("b0"), "nobody's");
        let file = places.configure(&bridge).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(written["plugins"][0]["subnets"][0], "10.9.0.0/24");
        assert!(places.is_of_other("b1") && !places.is_of_other("b0"));
        assert_eq!(places.ours().len(), 2, "{:?}", places.ours());
    }
}
