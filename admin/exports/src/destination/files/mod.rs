//! Files: in S3 and what speaks like it, Azure Blob Storage, Google Cloud Storage, and below a
//! folder of this server.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | the fields of a configuration that say what files are like |
//! | `names` | what files of a window are called |
//! | `encode` | bytes on their way: compressed, hashed, counted |
//! | `store` | what a place for files must be able to do |
//! | `objects` | object stores |
//! | `folder` | a folder of this server |
//! | `open_file` | one file that takes bytes |
//! | `delivery` | one run's files, from the first byte to the manifest |
//! | `manifest` | what says that a window is complete, and what belongs to it |
//! | `trial` | the steps of a test |
//!
//! Constraints:
//! - Of a run nothing is seen before all of it is stored: object stores hold parts of uploads that
//!   are not complete, the folder has temporary names. Then come the files, then go those of an
//!   earlier try that this one does not have, and last comes the manifest.
//! - Names follow from the window alone, so that a run that is tried again overwrites what it made.
//!   What another export made there, which its manifest says, is not overwritten.
//! - A file is in memory as four parts of 8 MiB at the most.

mod delivery;
mod encode;
mod folder;
mod manifest;
mod names;
mod objects;
mod open_file;
mod settings;
mod store;
mod trial;

use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use delivery::FileDelivery;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use names::Naming;
use serde_json::Value;
use settings::FileSettings;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use store::Store;
use trial::Trial;
use uuid::Uuid;

/// The most bytes of rows in one file unless something else is said: what fits in the parts that
/// stores take.
const FILE_BYTES_MAX: u64 = 64 << 30;
/// The most files of a window that fits into so many. Each is a statement that reads the whole window and keeps the rows of its share,
/// and an upload that stays open until all are stored; what a window has beyond makes its files larger.
const FILES_MAX: u64 = 100;

/// What a destination of files is made of, as the catalog has it.
#[derive(Clone, Copy)]
struct FilesConfig<'a> {
    kind: DestinationType,
    config: &'a Value,
    secrets: &'a BTreeMap<String, String>,
    export_root: Option<ExportRoot<'a>>,
}

/// The folder of this server that files stay in.
#[derive(Clone, Copy, Debug)]
pub struct ExportRoot<'a> {
    /// The folder of all exports; it is there.
    pub path: &'a Path,
    /// The organization below whose folder in it files stay; `None`: all of it, as exports have it
    /// that are older than these folders.
    pub files_of: Option<Uuid>,
}

impl FilesConfig<'_> {
    /// A secret that is not empty.
    fn secret(&self, name: &str) -> Option<&str> {
        let secret = self.secrets.get(name).map(String::as_str);
        secret.filter(|secret| !secret.is_empty())
    }
}

/// Makes a destination of `S3`, `AzureBlob`, `GCS` or `FileSystem`, of the fields that are no secrets
/// and those that are; `export_root` is the folder that exports to this server's files stay in.
/// Nothing is asked of it yet.
///
/// # Errors
/// The configuration lacks something, or cannot be read.
pub fn open(
    kind: DestinationType,
    config: &Value,
    secrets: &BTreeMap<String, String>,
    guard: &Guard,
    export_root: Option<ExportRoot<'_>>,
) -> Result<Box<dyn Destination>, ExportError> {
    let config = FilesConfig {
        kind,
        config,
        secrets,
        export_root,
    };
    let settings = FileSettings::of(config.config)?;
    let (store, template) = match kind {
        DestinationType::FileSystem => folder::open(&config)?,
        _ => objects::open(&config, guard)?,
    };
    let trial = Trial::new(&template);
    let naming = Naming {
        template,
        suffix: settings.suffix(),
        always_numbered: settings.file_bytes_max().is_some(),
    };
    Ok(Box::new(FileDestination {
        store,
        naming,
        settings,
        trial,
    }))
}

/// A place where files of rows are put.
struct FileDestination {
    store: Arc<dyn Store>,
    naming: Naming,
    settings: FileSettings,
    trial: Trial,
}

#[async_trait]
impl Destination for FileDestination {
    fn form(&self) -> RowForm {
        self.settings.form()
    }

    fn parts(&self, bytes_estimated: u64) -> u32 {
        let wanted = self.settings.file_bytes_max().unwrap_or(FILE_BYTES_MAX);
        files_of(bytes_estimated, wanted)
    }

    async fn begin(&self, run: &RunScope, parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        let names = self.naming.of(run, parts)?;
        let compression = self.settings.stream_compression();
        let store = Arc::clone(&self.store);
        let delivery = FileDelivery::begin(store, names, run, parts, compression).await?;
        Ok(Box::new(delivery))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        self.store.test_steps()
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        self.trial.make(self.store.as_ref(), step).await
    }
}

/// How many files a window of so many bytes becomes, where one shall have so many.
fn files_of(bytes_estimated: u64, wanted: u64) -> u32 {
    // No store takes less, however many they are.
    let least = bytes_estimated.div_ceil(FILE_BYTES_MAX).max(1);
    let files = bytes_estimated.div_ceil(wanted).min(FILES_MAX).max(least);
    u32::try_from(files).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_hundred_files_at_most_unless_they_would_be_too_large() {
        const GIB: u64 = 1 << 30;
        let table = [
            (0, GIB, 1),
            (GIB, GIB, 1),
            (GIB + 1, GIB, 2),
            (1_000 * GIB, GIB, 100),
            (1_000 * GIB, 1, 100),
            (u64::MAX >> 1, 1, 1 << 27),
        ];
        for (bytes, wanted, files) in table {
            assert_eq!(files_of(bytes, wanted), files, "{bytes} of {wanted}");
        }
    }
}
