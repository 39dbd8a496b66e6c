//! Where a runtime that somebody else started looks for the network of its Pods.

use std::path::{Path, PathBuf};

use super::{Cri, configuration};
use crate::runtime::Runtime;

/// Where a runtime that does not say so looks for plugins and their configuration.
const USUAL_PLUGINS: &str = "/opt/cni/bin";
const USUAL_PLACE: &str = "/etc/cni/net.d";

/// Where a runtime looks for the plugins that give Pods a network, and for their configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPlaces {
    pub configuration: PathBuf,
    pub plugins: PathBuf,
}

impl Cri {
    /// Where a network can be set up for Pods; nothing if they have one, or if somebody has begun to set one up, whatever is wrong
    /// with it. `own` is the name of the file that we would write.
    pub async fn without_network(&self, own: &str) -> Option<NetworkPlaces> {
        let shown = configuration(&self.caller).await.unwrap_or_default();
        let place = |field: &str, usual: &str| PathBuf::from(shown["cni"][field].as_str().unwrap_or(usual));
        let places =
            NetworkPlaces { configuration: place("confDir", USUAL_PLACE), plugins: place("binDir", USUAL_PLUGINS) };
        let file = places.configuration.join(own);
        let is_free = file.exists() || self.health().await.network.is_err();
        (is_free && !is_taken(&places.configuration, own)).then_some(places)
    }
}

/// Whether somebody else's configuration stands there.
fn is_taken(place: &Path, own: &str) -> bool {
    let is_configuration = |file: &Path| {
        file.extension().is_some_and(|extension| ["conf", "conflist", "json"].iter().any(|known| extension == *known))
    };
    let mut there = std::fs::read_dir(place).into_iter().flatten().flatten();
    there.any(|entry| is_configuration(&entry.path()) && entry.file_name() != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobodys_network_is_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let taken = || is_taken(place, "99-own.conflist");
        assert!(!taken(), "nothing is there");
        std::fs::write(place.join("99-own.conflist"), "").unwrap();
        std::fs::write(place.join("README"), "").unwrap();
        assert!(!taken(), "our own");
        std::fs::write(place.join("10-other.conf"), "").unwrap();
        assert!(taken(), "somebody has set one up");
    }
}
