//! One line of a catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plugin that can be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginCatalogueEntry")]
pub struct CatalogueEntry {
    /// What people call it.
    pub name: String,
    /// The address that a plugin is made with, to install it.
    pub url: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether somebody looked at it.
    #[serde(default)]
    pub verified: bool,
    /// Who looks after it.
    #[serde(default)]
    pub maintainer: Maintainer,
    /// Which way data goes.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Whether front ends show it.
    #[serde(default, rename = "displayOnWebsiteLib")]
    pub display_on_website_lib: bool,
    /// The address of a picture.
    #[serde(default, rename = "imageLink", skip_serializing_if = "Option::is_none")]
    pub image_link: Option<String>,
    /// Its version.
    pub tag: String,
    /// Where its files are, beside the list.
    #[serde(default, skip_serializing)]
    pub path: String,
    /// The names of its files.
    #[serde(default, skip_serializing)]
    pub files: Vec<String>,
}

/// Who looks after a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Maintainer {
    /// Those who make the catalogue.
    Official,
    /// Somebody else.
    #[default]
    Community,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// From elsewhere to here.
    DataIn,
    /// From here to elsewhere.
    DataOut,
    /// Through, and changed.
    IngestionFiltering,
}

impl CatalogueEntry {
    /// Where one of its files is, beside the list.
    pub(super) fn path_of(&self, file: &str) -> String {
        match self.path.trim_end_matches('/') {
            "" => file.to_owned(),
            path => format!("{path}/{file}"),
        }
    }
}
