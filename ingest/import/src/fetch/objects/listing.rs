//! Lists the objects below a prefix, and names their staged files.

use super::super::retries::Retries;
use super::keys;
use super::location::{KeySelection, ObjectLocation};
use crate::stats::StageStats;
use anyhow::{anyhow, bail};
use millrace_sources::{FetchError, Part, Transfer};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStoreExt};
use xxhash_rust::xxh3::xxh3_64;

/// Most attempts in a row for a page.
const TRIES_MAX: usize = 5;
/// Most bytes of a file name that file systems take, less the ending of an unfinished file.
const NAME_BYTES_MAX: usize = 200;

/// Lists the objects of a location as parts, in the order of their keys, without empty and hidden
/// ones.
pub(super) async fn list(
    location: &ObjectLocation,
    transfer: &Transfer,
    stats: &StageStats,
) -> anyhow::Result<Vec<Part>> {
    let listing = Listing {
        location,
        transfer,
        stats,
    };
    let (objects, folder) = match &location.selection {
        KeySelection::Prefix(prefix) => {
            let folder = prefix.rfind('/').map_or(0, |end| end + 1);
            (listing.all(prefix).await?, folder)
        }
        KeySelection::Folder(key) if key.is_empty() => (listing.all("").await?, 0),
        KeySelection::Folder(key) => {
            let mut objects = listing.all(&format!("{key}/")).await?;
            if objects.is_empty() {
                objects.extend(listing.one(key).await?);
                (objects, key.rfind('/').map_or(0, |end| end + 1))
            } else {
                (objects, key.len() + 1)
            }
        }
    };
    let mut parts: Vec<_> = objects
        .iter()
        .filter(|object| object.size > 0)
        .filter(|object| !is_hidden(&keys::plain(object.location.as_ref())))
        .map(|object| part(object, folder))
        .collect();
    parts.sort_by(|one, other| one.from.cmp(&other.from));
    if parts.is_empty() && location.left_out().is_empty() {
        bail!(
            "there is nothing below {}; check the prefix. To fetch all objects whose names begin \
             with it, put * at its end",
            location.url
        );
    }
    Ok(parts)
}

struct Listing<'a> {
    location: &'a ObjectLocation,
    transfer: &'a Transfer,
    stats: &'a StageStats,
}

impl Listing<'_> {
    /// Lists all objects whose keys begin with a prefix.
    async fn all(&self, prefix: &str) -> anyhow::Result<Vec<ObjectMeta>> {
        let mut objects = Vec::new();
        let mut page_token = None;
        loop {
            let page = self.page(prefix, page_token.as_ref()).await?;
            objects.extend(page.result.objects);
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(objects);
            }
        }
    }

    async fn page(
        &self,
        prefix: &str,
        page_token: Option<&String>,
    ) -> anyhow::Result<PaginatedListResult> {
        let mut retries = Retries::new(TRIES_MAX);
        loop {
            let options = PaginatedListOptions {
                page_token: page_token.cloned(),
                ..PaginatedListOptions::default()
            };
            let listed = self.location.lister.list_paginated(Some(prefix), options);
            let error = match self.transfer.head(listed).await {
                Ok(Ok(page)) => return Ok(page),
                Ok(Err(error)) => self.location.classify(&error, &self.location.url),
                Err(error) => error,
            };
            self.again(&mut retries, error).await?;
        }
    }

    /// Finds the object of a key, if there is one.
    async fn one(&self, key: &str) -> anyhow::Result<Option<ObjectMeta>> {
        let mut retries = Retries::new(TRIES_MAX);
        loop {
            let path = Path::parse(keys::marked(key))?;
            let error = match self.transfer.head(self.location.store.head(&path)).await {
                Ok(Ok(object)) => return Ok(Some(object)),
                Ok(Err(Error::NotFound { .. })) => return Ok(None),
                Ok(Err(error)) => self.location.classify(&error, key),
                Err(error) => error,
            };
            self.again(&mut retries, error).await?;
        }
    }

    async fn again(&self, retries: &mut Retries, error: FetchError) -> anyhow::Result<()> {
        let what = format!("listing {}", self.location.url);
        let outcome = retries.wait_after(error, &what, self.stats).await;
        outcome.map_err(|error| anyhow!("{} cannot be listed: {error}", self.location.url))
    }
}

fn is_hidden(key: &str) -> bool {
    let name = key.rsplit('/').next();
    name.is_some_and(|name| name.starts_with('.'))
}

/// Makes a part of an object; its file's name has the folders, as staged files lie in one folder.
fn part(object: &ObjectMeta, folder_bytes: usize) -> Part {
    let key = keys::plain(object.location.as_ref());
    Part {
        name: name(key.get(folder_bytes..).unwrap_or(&key)),
        from: key,
        until: String::new(),
        bytes: Some(object.size),
        version: Some(version(object)),
    }
}

/// Makes a file name that no other key has. The ending stays, as it shows the format.
fn name(key: &str) -> String {
    let is_plain = !key.contains(['~', '\\'])
        && key.len() <= NAME_BYTES_MAX
        && !key.starts_with('.')
        && !key.ends_with(".part");
    let name = key.replace(['/', '\\'], "~");
    if is_plain {
        return name;
    }
    let mut from = name.len().saturating_sub(NAME_BYTES_MAX - 17);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    let name = name.get(from..).unwrap_or_default();
    let ending = if name.ends_with(".part") { "_" } else { "" };
    format!("{:016x}~{name}{ending}", xxh3_64(key.as_bytes()))
}

/// Version of an object: its tag, or for stores that list none, the time it was written.
pub(super) fn version(object: &ObjectMeta) -> String {
    match &object.e_tag {
        // Azure lists them without quotes.
        Some(tag) if tag.starts_with("W/") || tag.starts_with('"') => tag.clone(),
        Some(tag) => format!("\"{tag}\""),
        None => format!("written {}", object.last_modified.to_rfc3339()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::client;
    use async_trait::async_trait;
    use object_store::list::PaginatedListStore;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Store that is always busy; counts how often it was asked.
    #[derive(Default)]
    struct Busy(AtomicUsize);

    #[async_trait]
    impl PaginatedListStore for Busy {
        async fn list_paginated(
            &self,
            _prefix: Option<&str>,
            _options: PaginatedListOptions,
        ) -> object_store::Result<PaginatedListResult> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(Error::Generic {
                store: "S3",
                source: "status code: 503".into(),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_of_a_busy_store_is_asked_for_five_times() {
        let transfer = Transfer::new(client().unwrap());
        let mut location = ObjectLocation::open("s3://bucket/exports/*", &transfer.http).unwrap();
        let busy = Arc::new(Busy::default());
        location.lister = busy.clone();
        let listed = list(&location, &transfer, &StageStats::default()).await;
        let error = listed.unwrap_err().to_string();
        assert!(error.contains("busy"), "{error}");
        assert_eq!(busy.0.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn file_names_are_short_and_unique_for_each_key() {
        let long = "x/".repeat(400) + "events.json.gz";
        let keys = [
            "events.json",
            "2024/01/events.json",
            "2024~01~events.json",
            "2024/01~events.json",
            "2024\\01/events.json",
            "a.part",
            ".hidden/events.json",
            &long,
            &long.replacen('x', "y", 1),
        ];
        let names: Vec<_> = keys.iter().map(|key| name(key)).collect();
        assert_eq!(names[..2], ["events.json", "2024~01~events.json"]);
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{names:?}");
        for name in &names {
            assert!(name.len() <= NAME_BYTES_MAX + 1, "{name}");
            assert!(!name.contains('/') && !name.starts_with('.') && !name.ends_with(".part"));
        }
        assert!(names[7].ends_with("x~events.json.gz"));
    }
}
