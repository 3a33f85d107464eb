//! The plugin catalogue: what can be installed and brought up to date.
//!
//! A catalogue is a `plugins.json`, a list of entries, with the files of each below the entry's
//! `path`: built in, in a folder, or below a URL. It is read when it is asked for, so that a
//! change is seen at once.
//!
//! | Module | Holds |
//! |---|---|
//! | `entry` | one line of `plugins.json` |
//! | `source` | where catalogues are read from |

mod entry;
mod source;

pub use entry::{CatalogueEntry, EntryKind, Maintainer};
pub use source::{CatalogueSource, CatalogueSourceError};

use millrace_catalog::{PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginRelease, source_bytes};
use serde_json::{Value, json};
use thiserror::Error;

/// The list of entries.
const INDEX: &str = "plugins.json";
/// What describes a plugin.
const MANIFEST: &str = "plugin.json";

/// Why a catalogue cannot be used; for the operator.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// A file is missing or too long, or the server does not answer.
    #[error("the plugin catalogue has no usable {name}: {reason}")]
    Unreadable {
        /// Which file.
        name: String,
        /// What the system or the server says.
        reason: String,
    },
    /// A file is no JSON of the right kind.
    #[error("{name} of the plugin catalogue is not as it should be: {reason}")]
    Malformed {
        /// Which file.
        name: String,
        /// Where and why.
        reason: String,
    },
}

/// A catalogue. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PluginCatalogue {
    source: CatalogueSource,
}

impl PluginCatalogue {
    /// What is read from there.
    #[must_use]
    pub fn new(source: CatalogueSource) -> Self {
        Self { source }
    }

    /// Everything that there is.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub async fn entries(&self) -> Result<Vec<CatalogueEntry>, CatalogueError> {
        let text = self.source.read(INDEX).await?;
        serde_json::from_str(&text).map_err(|error| malformed(INDEX, &error))
    }

    /// What is offered under an address, without its files; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub async fn entry(&self, url: &str) -> Result<Option<CatalogueEntry>, CatalogueError> {
        let entries = self.entries().await?;
        Ok(entries.into_iter().find(|entry| entry.url == url))
    }

    /// The same with its files, ready to be installed.
    ///
    /// # Errors
    ///
    /// The list or a file cannot be read.
    pub async fn release(&self, url: &str) -> Result<Option<PluginRelease>, CatalogueError> {
        let Some(entry) = self.entry(url).await? else {
            return Ok(None);
        };
        let files = self.files(&entry).await?;
        let manifest = files.iter().find(|(name, _)| name == MANIFEST);
        let config_schema = match manifest {
            Some((_, text)) => {
                let manifest: Value = serde_json::from_str(text)
                    .map_err(|error| malformed(&entry.path_of(MANIFEST), &error))?;
                manifest.get("config").cloned().unwrap_or_else(|| json!([]))
            }
            None => json!([]),
        };
        Ok(Some(PluginRelease {
            name: entry.name,
            description: entry.description,
            icon: entry.image_link,
            tag: entry.tag,
            config_schema,
            files,
        }))
    }

    /// Name and text of each file.
    async fn files(&self, entry: &CatalogueEntry) -> Result<Vec<(String, String)>, CatalogueError> {
        if entry.files.len() > PLUGIN_FILES_MAX {
            return Err(too_much(entry));
        }
        let mut files = Vec::with_capacity(entry.files.len());
        let mut bytes = 0;
        for name in &entry.files {
            let text = self.source.read(&entry.path_of(name)).await?;
            bytes += source_bytes(&text);
            if bytes > PLUGIN_SOURCE_BYTES_MAX {
                return Err(too_much(entry));
            }
            files.push((name.clone(), text));
        }
        Ok(files)
    }
}

/// More than a plugin may have, which is not read to its end.
fn too_much(entry: &CatalogueEntry) -> CatalogueError {
    CatalogueError::Malformed {
        name: entry.name.clone(),
        reason: format!(
            "it has more than {PLUGIN_FILES_MAX} files, or {PLUGIN_SOURCE_BYTES_MAX} bytes as JSON in \
             all"
        ),
    }
}

fn malformed(name: &str, error: &serde_json::Error) -> CatalogueError {
    CatalogueError::Malformed {
        name: name.to_owned(),
        reason: error.to_string(),
    }
}
