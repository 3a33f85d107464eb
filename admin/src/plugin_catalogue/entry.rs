//! Entry of a plugin catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plugin that can be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginCatalogueEntry")]
pub struct CatalogueEntry {
    /// Name of the plugin, for people.
    pub name: String,
    /// Address of the plugin; creating a plugin with it installs this one.
    pub url: String,
    /// Description of the plugin, for people.
    #[serde(default)]
    pub description: Option<String>,
    /// True if the maintainers of the catalogue have reviewed the plugin.
    #[serde(default)]
    pub verified: bool,
    /// Maintainer of the plugin.
    #[serde(default)]
    pub maintainer: Maintainer,
    /// Direction in which the plugin moves data.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// True if front ends show the plugin.
    #[serde(default, rename = "displayOnWebsiteLib")]
    pub display_on_website_lib: bool,
    /// Address of a picture.
    #[serde(default, rename = "imageLink", skip_serializing_if = "Option::is_none")]
    pub image_link: Option<String>,
    /// Version of the plugin.
    pub tag: String,
    /// Folder of the files, relative to the catalogue.
    #[serde(default, skip_serializing)]
    pub path: String,
    /// Names of the files.
    #[serde(default, skip_serializing)]
    pub files: Vec<String>,
}

/// Maintainer of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Maintainer {
    /// The maintainers of the catalogue.
    Official,
    /// Another person or organization.
    #[default]
    Community,
}

/// Direction in which a plugin moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Imports data.
    DataIn,
    /// Exports data.
    DataOut,
    /// Changes events as they are ingested.
    IngestionFiltering,
}

/// Parses a list of entries.
pub(super) fn parse(text: &str) -> Result<Vec<CatalogueEntry>, serde_json::Error> {
    serde_json::from_str(text)
}

impl CatalogueEntry {
    /// Path of one of the files, relative to the catalogue.
    pub(super) fn path_of(&self, file: &str) -> String {
        match self.path.trim_end_matches('/') {
            "" => file.to_owned(),
            path => format!("{path}/{file}"),
        }
    }
}
