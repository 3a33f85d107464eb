//! Catalog that a data folder is used with. Projects have numbers and keys in one catalog alone:
//! with another one, clients' keys would be unknown, and what waits in the log would be stored for
//! projects that have the same numbers there. So the folder keeps the id of its catalog, and its
//! place for messages, in the file `catalog-id`, and another one is refused.
//!
//! A folder whose log has never had an event takes any catalog. A folder of an earlier version has
//! no id: it takes the catalog of its first start with this one, unless that is empty. Whose the
//! rows in ClickHouse are, ClickHouse keeps (`millrace_clickhouse::RowOwner`).

use crate::config::Config;
use crate::credentials::Credentials;
use crate::data_dir::{self, is_disk_full};
use anyhow::Context;
use millrace_catalog::Catalog;
use millrace_clickhouse::RowOwner;
use millrace_log::fs::DiskFs;
use millrace_log::{SegmentReport, inspect};
use millrace_organizations::is_bootstrapped;
use millrace_rows::Lane;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

/// Number of a log's first segment, which is deleted once a later one has events.
const FIRST_SEGMENT: u64 = 1;
/// Ways out, for who meant another catalog and for who did not.
const ADVICE: &str = "Give the database_url of before. To go on with the other database, stop the servers and move \
     the catalog there: `millrace catalog copy --to URL`. To begin anew, give an empty folder with --data-dir and an \
     empty ClickHouse";

/// Another catalog than the one of the events that are here: an error of the settings.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct OtherCatalog(pub String);

/// Catalog of a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeptCatalog {
    id: Uuid,
    /// Place of the catalog at the last start.
    location: String,
}

/// Checks that a catalog is the one of the data folder, and sets the owner of the rows in
/// ClickHouse for this process. Changes nothing.
///
/// # Errors
/// [`OtherCatalog`] if the folder has had events of another one, or either cannot be read.
pub async fn check(config: &Config, catalog: &Catalog) -> anyhow::Result<()> {
    let (id, has_events) = (catalog.id().await?, catalog.has_events().await?);
    let dir = config.data_dir.display();
    let former = match KeptCatalog::load(&config.data_dir)? {
        Some(kept) if kept.id == id => None,
        Some(kept) => Some(format!("the catalog {} (id {})", kept.location, kept.id)),
        None => former_of_earlier_version(config, catalog).await?,
    };
    if let Some(former) = former
        && has_had_events(&config.log_dir)?
    {
        let location = catalog.location();
        let words = format!(
            "the data folder {dir} is that of {former}, and {location} is another catalog (id {id}): its projects have \
             the same numbers and would have the events of the former ones. {ADVICE}"
        );
        return Err(OtherCatalog(words).into());
    }
    config.row_owner.set(RowOwner {
        catalog_id: id,
        has_events,
    });
    Ok(())
}

/// Id of the catalog that the data folder was last used with; `None` if it has none.
///
/// # Errors
/// When its file cannot be read.
pub fn kept_id(data_dir: &Path) -> anyhow::Result<Option<Uuid>> {
    Ok(KeptCatalog::load(data_dir)?.map(|kept| kept.id))
}

/// Keeps the id of a catalog in the data folder, once [`check`] has passed.
///
/// # Errors
/// When the folder cannot be read or written; a full disk prevents no start.
pub async fn keep(config: &Config, catalog: &Catalog) -> anyhow::Result<()> {
    let now = KeptCatalog {
        id: catalog.id().await?,
        location: catalog.location().to_owned(),
    };
    let kept = KeptCatalog::load(&config.data_dir)?;
    if kept.as_ref() == Some(&now) {
        return Ok(());
    }
    if let Some(other) = kept.filter(|kept| kept.id != now.id) {
        tracing::warn!(
            former = other.location,
            present = now.location,
            "the data folder is used with another catalog from now on, as its log has never had an event; \
             organizations and keys of the former one stay there"
        );
    }
    let path = path(&config.data_dir);
    let text = format!("{}\n{}\n", now.id, now.location);
    match data_dir::replace(&path, text.as_bytes()) {
        // Only shipping frees space.
        Err(error) if is_disk_full(&error) => {
            tracing::warn!(%error, "no space left to record the catalog in the data folder; another one cannot be recognized");
            Ok(())
        }
        kept => kept.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Describes the catalog that a folder without an id was used with; `None` if that is this one, or
/// not known. Only an empty catalog is certain to be another one.
async fn former_of_earlier_version(
    config: &Config,
    catalog: &Catalog,
) -> anyhow::Result<Option<String>> {
    // A file that cannot be read is reported by the start.
    let credentials = Credentials::load(&config.credentials_path()).unwrap_or_default();
    let organization = credentials.unwrap_or_default().organization_id;
    if organization.is_empty() || is_bootstrapped(catalog).await? {
        return Ok(None);
    }
    Ok(Some(format!(
        "a catalog that has the organization {organization}"
    )))
}

/// Tells whether a log has ever had an event: the newest segment is kept until a later one has one.
fn has_had_events(log_dir: &Path) -> anyhow::Result<bool> {
    let is_used = |segment: &SegmentReport| segment.number > FIRST_SEGMENT || segment.frames > 0;
    for lane in Lane::ALL {
        let dir = log_dir.join(lane.name());
        if !dir.exists() {
            continue;
        }
        let found = inspect(&DiskFs, &dir, &mut |_| {});
        let found = found.with_context(|| format!("cannot read the log in {}", dir.display()))?;
        if found.segments.iter().any(is_used) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl KeptCatalog {
    fn load(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = path(data_dir);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let (id, location) = text.split_once('\n').unwrap_or((&text, ""));
        let id = id.parse::<Uuid>().with_context(|| {
            format!(
                "{} has no id of a catalog; delete it, and the next start writes it again",
                path.display()
            )
        })?;
        let location = location.trim_end().to_owned();
        Ok(Some(Self { id, location }))
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("catalog-id")
}
