//! Which objects there are below a prefix, and what their files are called.

use super::super::tries::Tries;
use super::keys;
use super::place::{Place, Wanted};
use crate::meter::Meter;
use anyhow::{anyhow, bail};
use millrace_sources::{FetchError, Part, Transfer};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStoreExt};
use xxhash_rust::xxh3::xxh3_64;

/// How often a page is tried in a row.
const TRIES_MAX: usize = 5;
/// What file systems take, without the ending of a file that is not whole.
const NAME_BYTES_MAX: usize = 200;

/// The objects of a place as parts, in the order of their keys. Empty ones are none, nor are hidden ones.
pub(super) async fn list(
    place: &Place,
    transfer: &Transfer,
    meter: &Meter,
) -> anyhow::Result<Vec<Part>> {
    let asking = Asking {
        place,
        transfer,
        meter,
    };
    let (objects, folder) = match &place.wanted {
        Wanted::Beginning(beginning) => {
            let folder = beginning.rfind('/').map_or(0, |end| end + 1);
            (asking.all(beginning).await?, folder)
        }
        Wanted::Below(key) if key.is_empty() => (asking.all("").await?, 0),
        Wanted::Below(key) => {
            let mut objects = asking.all(&format!("{key}/")).await?;
            if objects.is_empty() {
                objects.extend(asking.one(key).await?);
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
    if parts.is_empty() && place.left_out().is_empty() {
        bail!(
            "there is nothing below {}; check the prefix. All names that begin so are meant with * at its end",
            place.url
        );
    }
    Ok(parts)
}

struct Asking<'a> {
    place: &'a Place,
    transfer: &'a Transfer,
    meter: &'a Meter,
}

impl Asking<'_> {
    /// All objects whose keys begin so.
    async fn all(&self, beginning: &str) -> anyhow::Result<Vec<ObjectMeta>> {
        let mut objects = Vec::new();
        let mut page_token = None;
        loop {
            let page = self.page(beginning, page_token.as_ref()).await?;
            objects.extend(page.result.objects);
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(objects);
            }
        }
    }

    async fn page(
        &self,
        beginning: &str,
        page_token: Option<&String>,
    ) -> anyhow::Result<PaginatedListResult> {
        let mut tries = Tries::new(TRIES_MAX);
        loop {
            let options = PaginatedListOptions {
                page_token: page_token.cloned(),
                ..PaginatedListOptions::default()
            };
            let listed = self.place.lister.list_paginated(Some(beginning), options);
            let error = match self.transfer.head(listed).await {
                Ok(Ok(page)) => return Ok(page),
                Ok(Err(error)) => self.place.fault(&error, &self.place.url),
                Err(error) => error,
            };
            self.again(&mut tries, error).await?;
        }
    }

    /// The object of this key, if there is one.
    async fn one(&self, key: &str) -> anyhow::Result<Option<ObjectMeta>> {
        let mut tries = Tries::new(TRIES_MAX);
        loop {
            let path = Path::parse(keys::marked(key))?;
            let error = match self.transfer.head(self.place.store.head(&path)).await {
                Ok(Ok(object)) => return Ok(Some(object)),
                Ok(Err(Error::NotFound { .. })) => return Ok(None),
                Ok(Err(error)) => self.place.fault(&error, key),
                Err(error) => error,
            };
            self.again(&mut tries, error).await?;
        }
    }

    async fn again(&self, tries: &mut Tries, error: FetchError) -> anyhow::Result<()> {
        let what = format!("listing {}", self.place.url);
        let outcome = tries.after(error, &what, self.meter).await;
        outcome.map_err(|error| anyhow!("{} cannot be listed: {error}", self.place.url))
    }
}

fn is_hidden(key: &str) -> bool {
    let name = key.rsplit('/').next();
    name.is_some_and(|name| name.starts_with('.'))
}

/// Staged files lie in one folder, so that folders become part of the name.
fn part(object: &ObjectMeta, folder_bytes: usize) -> Part {
    let key = keys::plain(object.location.as_ref());
    Part {
        name: name(key.get(folder_bytes..).unwrap_or(&key)),
        from: key,
        until: String::new(),
        bytes: Some(object.size),
        version: Some(super::version(object)),
    }
}

/// A name that no other key has. The ending stays, as it says what a file is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_short_and_differ_as_keys_do() {
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
