//! The plugin catalogue: plugins that can be installed and upgraded.
//!
//! A catalogue is a `plugins.json`, a list of entries, with the files of each below the entry's
//! `path`: built in, in a folder, or below a URL. It is read on every request, so that changes
//! are visible at once.
//!
//! | Module | Holds |
//! |---|---|
//! | `entry` | an entry of `plugins.json` |
//! | `error` | failures to use a catalogue |
//! | `source` | sources that catalogues are read from |

mod entry;
mod error;
mod source;

pub use entry::{CatalogueEntry, EntryKind, Maintainer};
pub use error::CatalogueError;
pub use source::{CatalogueSource, CatalogueSourceError};

use millrace_catalog::bounded_json;
use millrace_organizations::{
    PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginRelease, source_bytes,
};
use serde_json::json;
use std::fmt;

/// File with the list of entries.
const INDEX: &str = "plugins.json";
/// File that describes a plugin.
const MANIFEST: &str = "plugin.json";

/// Plugin catalogue of a source. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PluginCatalogue {
    source: CatalogueSource,
}

impl PluginCatalogue {
    /// Creates the catalogue of a source.
    #[must_use]
    pub fn new(source: CatalogueSource) -> Self {
        Self { source }
    }

    /// Reads all entries.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub async fn entries(&self) -> Result<Vec<CatalogueEntry>, CatalogueError> {
        let text = self.source.read(INDEX).await?;
        entry::parse(&text).map_err(|error| malformed(INDEX, &error))
    }

    /// Reads the entry of an address, without its files; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub async fn entry(&self, url: &str) -> Result<Option<CatalogueEntry>, CatalogueError> {
        let entries = self.entries().await?;
        Ok(entries.into_iter().find(|entry| entry.url == url))
    }

    /// Reads the plugin of an address with its files, ready to be installed; `None` if there is
    /// none.
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
                let manifest = bounded_json::parse(text.as_bytes(), bounded_json::VALUES_MAX)
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

    /// Reads name and text of each file of an entry.
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

/// Error for a plugin with more than the limits allow; the rest of it is not read.
fn too_much(entry: &CatalogueEntry) -> CatalogueError {
    CatalogueError::Malformed {
        name: entry.name.clone(),
        reason: format!(
            "it has more than {PLUGIN_FILES_MAX} files, or {PLUGIN_SOURCE_BYTES_MAX} bytes as JSON in \
             all"
        ),
    }
}

fn malformed(name: &str, error: &impl fmt::Display) -> CatalogueError {
    CatalogueError::Malformed {
        name: name.to_owned(),
        reason: error.to_string(),
    }
}
