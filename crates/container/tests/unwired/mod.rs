//! A network for Pods of these tests: they have addresses, and no cable.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pintle_container::cri::private::PrivateConfig;

/// What a containerd below this directory is told, and a network with addresses that begin so: `10.213.0`.
pub fn config(directory: &Path, prefix: &str) -> PrivateConfig {
    let config = PrivateConfig { directory: directory.to_owned(), plugins: directory.join("bin") };
    for place in [&config.plugins, &config.networks()] {
        std::fs::create_dir_all(place).expect("a directory");
    }
    for name in ["loopback", "unwired"] {
        let file = config.plugins.join(name);
        std::fs::write(&file, include_str!("cni.sh")).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let network =
        format!(r#"{{"cniVersion":"1.0.0","name":"unwired","plugins":[{{"type":"unwired","subnet":"{prefix}.0"}}]}}"#);
    std::fs::write(config.networks().join("10-unwired.conflist"), network).expect("a file");
    config
}
