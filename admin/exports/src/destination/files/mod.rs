//! Destinations of files: S3 and compatible stores, Azure Blob Storage, Google Cloud Storage, and a
//! folder of this server.
//!
//! | Module | Holds |
//! |---|---|
//! | `config` | configuration of a destination |
//! | `settings` | format, compression and size of files |
//! | `names` | names of a window's files |
//! | `encode` | compresses, hashes and counts bytes |
//! | `store` | trait of stores of files |
//! | `objects` | object stores |
//! | `folder` | a folder of this server |
//! | `open_file` | a file that is being written |
//! | `delivery` | delivery of one run, from the first byte to the manifest |
//! | `manifest` | the list of a window's files, which shows that it is complete |
//! | `destination_test` | the steps of a test |
//!
//! Constraints:
//! - Nothing of a run is visible before all of it is stored: object stores keep parts of incomplete
//!   uploads, the folder has temporary names. Then the files are published, then stale files of an
//!   earlier try are deleted, and the manifest is written last.
//! - Names follow from the window alone, so that a retried run overwrites its own files. Another
//!   export's files, as its manifest shows, are not overwritten.
//! - At most four parts of 8 MiB of a file are in memory.

mod config;
mod delivery;
mod destination_test;
mod encode;
mod folder;
mod manifest;
mod names;
mod objects;
mod open_file;
mod settings;
mod store;

pub use config::ExportRoot;

use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use config::FilesConfig;
use delivery::FileDelivery;
use destination_test::DestinationTest;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use names::Naming;
use serde_json::Value;
use settings::FileSettings;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Store;

/// Bytes of rows in one file at most, by default: as many as fit in the parts that stores take.
const FILE_BYTES_MAX: u64 = 64 << 30;
/// Files of a window at most, unless they would be too large. Each is a statement that reads the
/// whole window and keeps the rows of its share, and an upload that stays open until all are
/// stored; with more rows, files get larger.
const FILES_MAX: u64 = 100;

/// Opens a destination of `S3`, `AzureBlob`, `GCS` or `FileSystem` from its public and its secret
/// fields. Exports to files of this server stay below `export_root`. Nothing is dialled yet.
///
/// # Errors
/// The configuration lacks a field, or cannot be read.
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
    let destination_test = DestinationTest::new(&template);
    let naming = Naming {
        template,
        suffix: settings.suffix(),
        always_numbered: settings.file_bytes_max().is_some(),
    };
    Ok(Box::new(FileDestination {
        store,
        naming,
        settings,
        destination_test,
    }))
}

/// Destination that writes files of rows.
struct FileDestination {
    store: Arc<dyn Store>,
    naming: Naming,
    settings: FileSettings,
    destination_test: DestinationTest,
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
        self.destination_test.make(self.store.as_ref(), step).await
    }
}

/// Number of files for a window of `bytes_estimated`, where a file should have `wanted` bytes.
fn files_of(bytes_estimated: u64, wanted: u64) -> u32 {
    // No store takes larger files, so this many are needed in any case.
    let least = bytes_estimated.div_ceil(FILE_BYTES_MAX).max(1);
    let files = bytes_estimated.div_ceil(wanted).min(FILES_MAX).max(least);
    u32::try_from(files).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_hundred_files_at_most_unless_they_would_be_too_large() {
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
