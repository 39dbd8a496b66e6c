//! A volume with the keys of a Secret, which never reach the disk.

use k8s_openapi::api::core::v1::SecretVolumeSource;

use super::files::{USUAL_MODE, of_secret};
use super::{Content, Medium, Sources, Wanted};

pub(super) fn wanted(name: &str, source: &SecretVolumeSource, sources: &Sources) -> Result<Wanted, String> {
    let secret = sources.secret(source.secret_name.as_deref().unwrap_or_default(), source.optional)?;
    let mode = source.default_mode.unwrap_or(USUAL_MODE);
    let files = of_secret(secret, source.items.as_deref(), mode, source.optional == Some(true))?;
    let content = Content::Files { files, medium: Medium::Memory { size: None } };
    Ok(Wanted::new("secret", name, content).read_only())
}
