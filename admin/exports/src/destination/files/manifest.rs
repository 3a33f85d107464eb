//! Manifest of a window: shows that the window is complete, and lists its files. It follows from
//! the window and its rows alone, so that another try writes the same.

use super::encode::FileDigest;
use crate::window::RunScope;
use bytes::Bytes;
use millrace_catalog::ExportModel;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Manifest of a window's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    export_id: Uuid,
    model: String,
    data_interval_start: Option<String>,
    data_interval_end: String,
    /// Rows of all files.
    rows: u64,
    /// Bytes of all files, as they are stored.
    pub(super) bytes: u64,
    files: Vec<ManifestFile>,
}

/// Entry of a file in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestFile {
    pub(super) key: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl ManifestFile {
    pub(super) fn new(key: String, rows: u64, digest: FileDigest) -> Self {
        Self {
            key,
            rows,
            bytes: digest.bytes,
            sha256: digest.sha256,
        }
    }
}

impl Manifest {
    pub(super) fn new(run: &RunScope, files: Vec<ManifestFile>) -> Self {
        let model = match run.model {
            ExportModel::Events => "events",
            ExportModel::Persons => "persons",
        };
        Self {
            export_id: run.export_id,
            model: model.to_owned(),
            data_interval_start: run.window.start.map(|start| start.to_string()),
            data_interval_end: run.window.end.to_string(),
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
        }
    }

    /// Serializes the manifest.
    pub(super) fn to_json(&self) -> serde_json::Result<Bytes> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        Ok(json.into())
    }

    /// Keys of an earlier manifest's files, if it is of this export. Anybody with access to the
    /// bucket may have changed it, so callers that delete by it check the keys.
    pub(super) fn earlier_keys(json: &[u8], export_id: Uuid) -> Vec<String> {
        let earlier: Option<Self> = serde_json::from_slice(json).ok();
        let earlier = earlier.filter(|earlier| earlier.export_id == export_id);
        let files = earlier.into_iter().flat_map(|earlier| earlier.files);
        files.map(|file| file.key).collect()
    }

    /// Export that a manifest, and with it the files, is of; `None`: it is no manifest of ours.
    pub(super) fn owner(json: &[u8]) -> Option<Uuid> {
        #[derive(Deserialize)]
        struct Owner {
            export_id: Uuid,
        }
        let owner: Option<Owner> = serde_json::from_slice(json).ok();
        owner.map(|owner| owner.export_id)
    }

    pub(super) fn names(&self, key: &str) -> bool {
        self.files.iter().any(|file| file.key == key)
    }
}
