//! A volume in which a Pod reads about itself.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, DownwardAPIVolumeSource};

use super::files::{Files, USUAL_MODE, file};
use super::{Content, Medium, Wanted};
use crate::make::{Facts, fields};

pub(super) fn wanted(name: &str, source: &DownwardAPIVolumeSource, facts: &Facts<'_>) -> Result<Wanted, String> {
    let mode = source.default_mode.unwrap_or(USUAL_MODE);
    let files = files(source.items.as_deref().unwrap_or_default(), facts, mode)?;
    let content = Content::Files { files, medium: Medium::Memory { size: None } };
    Ok(Wanted::new("downward-api", name, content).read_only())
}

pub(super) fn files(items: &[DownwardAPIVolumeFile], facts: &Facts<'_>, mode: i32) -> Result<Files, String> {
    let made = items.iter().map(|item| {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(reference), _) => fields::metadata_field(facts, &reference.field_path)?,
            (None, Some(reference)) => fields::resource_of(facts, reference)?,
            (None, None) => String::new(),
        };
        Ok((item.path.clone(), file(value, item.mode.unwrap_or(mode))))
    });
    made.collect()
}
