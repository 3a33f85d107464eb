//! Configuration of a destination of files.

use millrace_catalog::DestinationType;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use uuid::Uuid;

/// Configuration of a destination of files, as the catalog has it.
#[derive(Clone, Copy)]
pub(super) struct FilesConfig<'a> {
    pub(super) kind: DestinationType,
    pub(super) config: &'a Value,
    pub(super) secrets: &'a BTreeMap<String, String>,
    pub(super) export_root: Option<ExportRoot<'a>>,
}

impl FilesConfig<'_> {
    /// Secret of this name, unless it is empty.
    pub(super) fn secret(&self, name: &str) -> Option<&str> {
        let secret = self.secrets.get(name).map(String::as_str);
        secret.filter(|secret| !secret.is_empty())
    }
}

/// Folder of this server that files stay in.
#[derive(Clone, Copy, Debug)]
pub struct ExportRoot<'a> {
    /// Folder of all exports; it exists.
    pub path: &'a Path,
    /// Organization whose folder files stay in; `None`: anywhere below `path`, for exports that are
    /// older than these folders.
    pub files_of: Option<Uuid>,
}
