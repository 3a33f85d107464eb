//! Stores that cases run on, and the simplest one.

use async_trait::async_trait;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use millrace_exports::ExportError;
use millrace_exports::destination::Destination;
use millrace_exports::destination::files::{ExportRoot, open};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Text in every secret of these tests.
pub const CANARY: &str = "canary";

#[async_trait]
pub trait TestStore: Send + Sync {
    fn kind(&self) -> DestinationType;

    /// All fields except those of files, for files below a prefix.
    fn config(&self, prefix: &str) -> Map<String, Value>;

    fn secrets(&self) -> BTreeMap<String, String>;

    fn export_root(&self) -> Option<&Path> {
        None
    }

    /// All visible files, by key.
    async fn files(&self) -> BTreeMap<String, Vec<u8>>;

    /// Number of unfinished uploads and temporary files.
    async fn unfinished(&self) -> usize;

    /// Returns true if the store can list unfinished uploads.
    fn lists_unfinished(&self) -> bool {
        true
    }

    /// Stores a file without the destination.
    async fn put(&self, key: &str, bytes: &[u8]);

    /// Deletes a file without the destination.
    async fn remove(&self, key: &str);
}

impl dyn TestStore + '_ {
    pub fn open(&self, prefix: &str, files: Value) -> Box<dyn Destination> {
        let mut config = self.config(prefix);
        config.extend(fields(files));
        self.open_with(&config, &self.secrets()).unwrap()
    }

    pub fn open_with(
        &self,
        config: &Map<String, Value>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Box<dyn Destination>, ExportError> {
        let config = Value::Object(config.clone());
        let guard = Guard::new(true).unwrap();
        let root = self.export_root().map(|path| ExportRoot {
            path,
            files_of: None,
        });
        open(self.kind(), &config, secrets, &guard, root)
    }
}

pub struct LocalFolder {
    root: tempfile::TempDir,
}

impl LocalFolder {
    pub fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }
}

#[async_trait]
impl TestStore for LocalFolder {
    fn kind(&self) -> DestinationType {
        DestinationType::FileSystem
    }

    fn config(&self, prefix: &str) -> Map<String, Value> {
        fields(json!({"path": prefix}))
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn export_root(&self) -> Option<&Path> {
        Some(self.path())
    }

    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = tree(self.path());
        files.retain(|key, _| !is_temporary(key));
        files
    }

    async fn unfinished(&self) -> usize {
        tree(self.path())
            .keys()
            .filter(|key| is_temporary(key))
            .count()
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    async fn remove(&self, key: &str) {
        std::fs::remove_file(self.path().join(key)).unwrap();
    }
}

fn is_temporary(key: &str) -> bool {
    key.rsplit('/').next().unwrap().starts_with('.')
}

pub fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

/// All files below a folder, by their paths in it.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(within) = folders.pop() {
        for entry in std::fs::read_dir(within).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let key = path.strip_prefix(folder).unwrap().to_str().unwrap();
                files.insert(key.to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}
