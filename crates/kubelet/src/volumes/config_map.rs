//! A volume with the keys of a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMapVolumeSource;

use super::files::{USUAL_MODE, of_config_map};
use super::{Content, Medium, Sources, Wanted};

pub(super) fn wanted(name: &str, source: &ConfigMapVolumeSource, sources: &Sources) -> Result<Wanted, String> {
    let map = sources.config_map(&source.name, source.optional)?;
    let mode = source.default_mode.unwrap_or(USUAL_MODE);
    let files = of_config_map(map, source.items.as_deref(), mode, source.optional == Some(true))?;
    Ok(Wanted::new("configmap", name, Content::Files { files, medium: Medium::Disk }).read_only())
}
