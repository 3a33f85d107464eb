//! First start: creates an organization, a project, an owner and their keys.
//!
//! `credentials.json` is written at the end of a start, when it is complete. Until then the first
//! personal key is in a file of its own: a crash must not leave a key in the catalog that nobody
//! knows.

use crate::credentials::Credentials;
use crate::data_dir;
use anyhow::Context;
use millrace_catalog::Catalog;
use millrace_catalog::key::PersonalKey;
use millrace_organizations::{BootstrapOptions, PersonalKeys, Projects, bootstrap};
use std::io::ErrorKind;
use std::path::Path;

/// File of the first personal key, from before the catalog has the key until `credentials.json`
/// does.
const FIRST_KEY_FILE: &str = "first.key";

/// Fills an empty catalog and completes the credentials; `is_kept` is true if they come from their
/// file. Returns true for the first start, also if an earlier attempt was cut off.
///
/// # Errors
/// When the catalog or the key's file cannot be written.
pub async fn run(
    catalog: &Catalog,
    dir: &Path,
    is_kept: bool,
    credentials: &mut Credentials,
) -> anyhow::Result<bool> {
    if !is_kept {
        credentials.personal_api_key = first_key(dir)?;
    }
    let personal_key = PersonalKey::parse(&credentials.personal_api_key).ok();
    let made = bootstrap(
        catalog,
        BootstrapOptions {
            personal_key,
            ..BootstrapOptions::default()
        },
    )
    .await?;
    let mut is_first = made.is_some();
    if let Some(made) = &made {
        made.personal_api_key
            .expose()
            .clone_into(&mut credentials.personal_api_key);
    } else if !is_kept {
        // Made by a start that was cut off; or the catalog was filled long ago, and the file
        // deleted since.
        is_first = PersonalKeys::new(catalog)
            .authenticate(&credentials.personal_api_key)
            .await?
            .is_some();
        if !is_first {
            credentials.personal_api_key.clear();
        }
    }
    let projects = Projects::new(catalog).list_all(None).await?;
    if let Some(first) = projects.first() {
        credentials.organization_id = first.organization_id.to_string();
        credentials.team_id = first.id;
        credentials.project_api_key = first.api_token.clone().unwrap_or_default();
    }
    Ok(is_first)
}

/// Removes the file of the first key: `credentials.json` has the key.
pub fn finish(dir: &Path) {
    let path = dir.join(FIRST_KEY_FILE);
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(
            "cannot delete {}, which is not needed any more: {error}",
            path.display()
        );
    }
}

/// First personal key: the one of a start that was cut off, or a new one.
fn first_key(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join(FIRST_KEY_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if PersonalKey::parse(text.trim()).is_ok() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let key = PersonalKey::generate().context("the system gives no random numbers")?;
    data_dir::replace(&path, key.expose().as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(key.expose().to_owned())
}
