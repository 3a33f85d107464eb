//! Object stores as a source: every object below a prefix of S3, Google's buckets, Azure's
//! containers, and compatible stores.
//!
//! | Module | Holds |
//! |---|---|
//! | `location` | the bucket and prefix that a URL names |
//! | `listing` | list of the objects |
//! | `classify` | meaning of a store's errors |
//! | `http` | changes to requests and responses |
//! | `keys`, `signing` | keys that the library has no paths for |

mod classify;
mod http;
mod keys;
mod listing;
mod location;
mod signing;

use crate::stats::StageStats;
use async_trait::async_trait;
use futures_util::StreamExt;
use listing::version;
use location::ObjectLocation;
use millrace_sources::{Export, FetchError, Part, Transfer};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};
use std::io::Write;

/// Number of objects fetched at once.
const PARALLEL: usize = 4;

/// Export of the objects below a prefix.
#[derive(Debug)]
pub struct Objects {
    location: ObjectLocation,
    parts: Vec<Part>,
}

impl Objects {
    /// Lists the objects that a URL names, such as `s3://bucket/exports/2024`, `gs://…` or
    /// `az://container/…`: an object, or all objects in a folder; with `*` at the end, all whose
    /// keys begin with the text before.
    ///
    /// # Errors
    /// The URL names no object, or the store cannot be listed.
    pub async fn list(url: &str, transfer: &Transfer, stats: &StageStats) -> anyhow::Result<Self> {
        let location = ObjectLocation::open(url, &transfer.http)?;
        let parts = listing::list(&location, transfer, stats).await?;
        Ok(Self { location, parts })
    }

    /// Requests an object from a byte on.
    async fn get(&self, part: &Part, begun_bytes: u64) -> object_store::Result<GetResult> {
        let options = GetOptions {
            if_match: part.version.as_deref().and_then(entity_tag),
            range: (begun_bytes > 0).then_some(GetRange::Offset(begun_bytes)),
            ..GetOptions::default()
        };
        let path = Path::parse(keys::marked(&part.from))?;
        self.location.store.get_opts(&path, options).await
    }
}

/// Entity tag for `If-Match`, if the version has one. Weak tags match nothing.
fn entity_tag(version: &str) -> Option<String> {
    version.starts_with('"').then(|| version.to_owned())
}

/// Returns true if a store that ignores `If-Match` sends another version than the listed one.
fn is_other_version(part: &Part, found: &ObjectMeta) -> bool {
    let listed = part.version.as_deref().and_then(entity_tag);
    let is_other_tag = match (&listed, &found.e_tag) {
        (Some(listed), Some(_)) => *listed != version(found),
        _ => false,
    };
    is_other_tag || part.bytes.is_some_and(|bytes| bytes != found.size)
}

#[async_trait]
impl Export for Objects {
    fn source(&self) -> String {
        self.location.url.clone()
    }

    fn parts(&self) -> Vec<Part> {
        self.parts.clone()
    }

    fn parallel(&self) -> usize {
        PARALLEL
    }

    fn is_resumable(&self) -> bool {
        true
    }

    fn left_out(&self) -> Vec<String> {
        self.location.left_out()
    }

    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        let classify = |error| self.location.classify(&error, &part.from);
        let mut found = transfer.head(self.get(part, begun_bytes)).await?;
        let mut skipped_bytes = 0;
        if begun_bytes > 0 && found.as_ref().is_err_and(classify::ignores_ranges) {
            found = transfer.head(self.get(part, 0)).await?;
            skipped_bytes = begun_bytes;
        }
        let found = found.map_err(classify)?;
        if is_other_version(part, &found.meta) {
            return Err(classify::changed(&part.from));
        }
        let mut stream = found.into_stream();
        let mut bytes = begun_bytes - skipped_bytes;
        while let Some(piece) = transfer.piece(stream.next()).await? {
            let piece = piece.map_err(classify)?;
            bytes += piece.len() as u64;
            // Skip the bytes that came before, if the store begins again.
            let skipped = skipped_bytes.min(piece.len() as u64);
            skipped_bytes -= skipped;
            let skipped = usize::try_from(skipped).unwrap_or(piece.len());
            into.write_all(piece.get(skipped..).unwrap_or_default())?;
        }
        match part.bytes {
            Some(expected) if expected != bytes => Err(FetchError::retryable(format!(
                "{bytes} bytes came of {expected}"
            ))),
            _ => Ok(()),
        }
    }
}
