//! The first start: an organization, a project, an owner and their keys.

use crate::credentials::Credentials;
use anyhow::Context;
use millrace_catalog::key::PersonalKey;
use millrace_catalog::{BootstrapOptions, Catalog};
use std::path::Path;

/// Fills an empty catalog and completes the credentials; true when it was this start that did.
///
/// The personal key is written to the file before the catalog learns of it: a crash in between
/// must not leave a key that nobody knows.
///
/// # Errors
/// When the catalog or the file cannot be written.
pub async fn run(
    catalog: &Catalog,
    path: &Path,
    credentials: &mut Credentials,
) -> anyhow::Result<bool> {
    let file_was_there = path.exists();
    if !file_was_there {
        let key = PersonalKey::generate().context("the system gives no random numbers")?;
        credentials.personal_api_key = key.expose().to_owned();
        credentials.store(path)?;
    }
    let personal_key = PersonalKey::parse(&credentials.personal_api_key).ok();
    let made = catalog
        .bootstrap(BootstrapOptions {
            personal_key,
            ..BootstrapOptions::default()
        })
        .await?;
    if let Some(made) = &made {
        made.personal_api_key
            .expose()
            .clone_into(&mut credentials.personal_api_key);
    } else if !file_was_there {
        // The catalog was filled long ago, and the file deleted since.
        credentials.personal_api_key.clear();
    }
    let projects = catalog.list_projects(None).await?;
    if let Some(first) = projects.first() {
        credentials.organization_id = first.organization_id.to_string();
        credentials.team_id = first.id;
        credentials.project_api_key = first.api_token.clone().unwrap_or_default();
    }
    Ok(made.is_some())
}
