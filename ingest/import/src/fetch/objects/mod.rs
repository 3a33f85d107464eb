//! Object stores: every object below a prefix of S3, Google's buckets, Azure's containers, and what speaks like them.
//!
//! | Module | Holds |
//! |---|---|
//! | `place` | what is named, and the store that has it |
//! | `listing` | which objects there are |
//! | `blame` | what a store's errors mean |
//! | `http` | its requests by our client |
//! | `keys`, `signing` | keys that the library has no paths for |

mod blame;
mod http;
mod keys;
mod listing;
mod place;
mod signing;

use crate::meter::Meter;
use async_trait::async_trait;
use futures_util::StreamExt;
use millrace_sources::{Export, FetchError, Part, Transfer};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};
use place::Place;
use std::io::Write;

/// Objects that are fetched at once.
const PARALLEL: usize = 4;

/// The objects below a prefix.
#[derive(Debug)]
pub struct Objects {
    place: Place,
    parts: Vec<Part>,
}

impl Objects {
    /// Lists what `s3://bucket/exports/2024` names, or `gs://…`, or `az://container/…`: an object, or all below such a
    /// folder; with `*` at its end, all whose names begin so.
    ///
    /// # Errors
    /// When it names nothing, or cannot be listed.
    pub async fn list(url: &str, transfer: &Transfer, meter: &Meter) -> anyhow::Result<Self> {
        let place = Place::open(url, &transfer.http)?;
        let parts = listing::list(&place, transfer, meter).await?;
        Ok(Self { place, parts })
    }

    /// Asks for an object from a byte on.
    async fn get(&self, part: &Part, begun_bytes: u64) -> object_store::Result<GetResult> {
        let options = GetOptions {
            if_match: part.version.as_deref().and_then(entity_tag),
            range: (begun_bytes > 0).then_some(GetRange::Offset(begun_bytes)),
            ..GetOptions::default()
        };
        let path = Path::parse(keys::marked(&part.from))?;
        self.place.store.get_opts(&path, options).await
    }
}

/// What tells an object from what it was: its tag, or for stores that list none, when it was written.
fn version(object: &ObjectMeta) -> String {
    match &object.e_tag {
        // Azure lists them without quotes.
        Some(tag) if tag.starts_with("W/") || tag.starts_with('"') => tag.clone(),
        Some(tag) => format!("\"{tag}\""),
        None => format!("written {}", object.last_modified.to_rfc3339()),
    }
}

/// A version as `If-Match` has it. Weak ones match nothing.
fn entity_tag(version: &str) -> Option<String> {
    version.starts_with('"').then(|| version.to_owned())
}

/// Whether what comes is not what was listed, of a store that does not mind what it is asked.
fn is_another(part: &Part, found: &ObjectMeta) -> bool {
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
        self.place.url.clone()
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
        self.place.left_out()
    }

    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        let fault = |error| self.place.fault(&error, &part.from);
        let mut found = transfer.head(self.get(part, begun_bytes)).await?;
        let mut skipped_bytes = 0;
        if begun_bytes > 0 && found.as_ref().is_err_and(blame::is_without_ranges) {
            found = transfer.head(self.get(part, 0)).await?;
            skipped_bytes = begun_bytes;
        }
        let found = found.map_err(fault)?;
        if is_another(part, &found.meta) {
            return Err(blame::changed(&part.from));
        }
        let mut stream = found.into_stream();
        let mut bytes = begun_bytes - skipped_bytes;
        while let Some(piece) = transfer.piece(stream.next()).await? {
            let piece = piece.map_err(fault)?;
            bytes += piece.len() as u64;
            // Those that came before, if the store begins anew.
            let skipped = skipped_bytes.min(piece.len() as u64);
            skipped_bytes -= skipped;
            let skipped = usize::try_from(skipped).unwrap_or(piece.len());
            into.write_all(piece.get(skipped..).unwrap_or_default())?;
        }
        match part.bytes {
            Some(expected) if expected != bytes => Err(FetchError::again(format!(
                "{bytes} bytes came of {expected}"
            ))),
            _ => Ok(()),
        }
    }
}
