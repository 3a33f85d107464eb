//! Fingerprint of the key of secrets in the catalog. A process with another key does not start:
//! what it sealed, no other process could open. A key that is to replace the present one stands
//! before it in the setting, so that both are known; `millrace secrets rotate` updates the
//! fingerprint.

use crate::config::Config;
use crate::secret_key::{self, FILE};
use millrace_catalog::Catalog;
use millrace_exports::SecretKey;
use thiserror::Error;

/// Ways to the right key, or on without it.
const ADVICE: &str = "copy secret.key from a server that runs, or give it the same secret_key; a new key stands before \
     the present one, with a comma between. If the key is lost, `millrace secrets reset --yes` takes the key that is \
     here, and the secrets of all exports have to be given again";

/// Another key than the one of the catalog's secrets: an error of the settings.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct OtherSecretKey(String);

/// Requires that this process has the key that the catalog's secrets are encrypted with, perhaps
/// behind one that is to replace it. The first process with a key has the catalog keep its
/// fingerprint. Where the catalog has one, no key is created.
///
/// # Errors
/// [`OtherSecretKey`], or the catalog or the key's file cannot be read.
pub async fn require_same(config: &Config, catalog: &Catalog) -> anyhow::Result<()> {
    let kept = catalog.key_fingerprint().await?;
    let key = match (secret_key::known(config)?, &kept) {
        (Some(key), _) => key,
        (None, None) => secret_key::find(config)?,
        (None, Some(_)) => return Err(OtherSecretKey(missing(config, catalog)).into()),
    };
    let own = fingerprints(&key, catalog).await?;
    let Some(sealing) = own.first() else {
        return Ok(());
    };
    let kept = match kept {
        Some(kept) => kept,
        None => catalog.keep_key_fingerprint(sealing).await?,
    };
    match own.contains(&kept) {
        true => Ok(()),
        false => Err(OtherSecretKey(other(config, catalog)).into()),
    }
}

/// Has the catalog keep the fingerprint of a key, once all secrets are encrypted with it.
///
/// # Errors
/// When the catalog cannot be read or written.
pub async fn note(key: &SecretKey, catalog: &Catalog) -> anyhow::Result<()> {
    if let Some(sealing) = fingerprints(key, catalog).await?.first() {
        catalog.replace_key_fingerprint(sealing).await?;
    }
    Ok(())
}

/// Fingerprints of the keys in this catalog, the sealing one first.
async fn fingerprints(key: &SecretKey, catalog: &Catalog) -> anyhow::Result<Vec<String>> {
    Ok(key.fingerprints(catalog.id().await?.as_bytes()))
}

/// Message for a folder without a key, where the catalog has secrets of another one.
fn missing(config: &Config, catalog: &Catalog) -> String {
    format!(
        "there is no {FILE} in {}, and the secrets in {} are encrypted with the key of another server: {ADVICE}",
        config.data_dir.display(),
        catalog.location()
    )
}

/// Message for a process with another key.
fn other(config: &Config, catalog: &Catalog) -> String {
    let whose = match &config.secret_key {
        Some(_) => "the setting secret_key".to_owned(),
        None => config.data_dir.join(FILE).display().to_string(),
    };
    format!(
        "{whose} is another key than the one that the secrets in {} are encrypted with: {ADVICE}",
        catalog.location()
    )
}
