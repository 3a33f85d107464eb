//! Table of project keys in the data folder, with which a node starts while the catalog is away.
//!
//! The file `project-keys` has a line for each key, readable by its owner only. It is written again
//! at each change of a key, and its time of modification says when the catalog was last known to
//! have the same. So a key that was revoked while the node could hear of it stays revoked; one that
//! the file lacks is unknown. Only nodes with a catalog in PostgreSQL keep one: SQLite's file is
//! there whenever the data folder is.

mod keep;

pub use keep::begin;

use anyhow::{Context, bail};
use metrics::{Unit, describe_gauge, gauge};
use millrace_catalog::key::PROJECT_KEY_BYTES_MAX;
use millrace_catalog::{ListedKey, ProjectId, ProjectKey};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

const KEY_TABLE_AGE: &str = "millrace_key_table_age_seconds";

/// Keys in the file, at most: as many as are cached. Those of more projects are unknown to a start
/// without the catalog.
const KEYS_MAX: u64 = 1_000_000;
/// Bytes of a line, at most: numbers, an id and a key.
const LINE_BYTES_MAX: u64 = 128 + PROJECT_KEY_BYTES_MAX as u64;
/// Beginning of the first line, before the id of the catalog.
const TITLE: &str = "millrace project keys 1 ";
/// Beginning of the last line, before the number of keys.
const END: &str = "end ";

/// Table, as it was read.
#[derive(Debug)]
pub struct KeyTable {
    pub keys: Vec<ListedKey>,
    /// Time at which the catalog was last known to have these keys.
    pub confirmed_at: SystemTime,
}

impl KeyTable {
    /// Loads the keys of the catalog with this id; `None` if the folder has none of it.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub fn load(data_dir: &Path, catalog_id: Uuid) -> anyhow::Result<Option<Self>> {
        let path = path(data_dir);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let confirmed_at = file.metadata().and_then(|file| file.modified());
        let confirmed_at = confirmed_at.with_context(|| format!("cannot read {}", path.display()));
        let bytes_max = (KEYS_MAX + 2) * LINE_BYTES_MAX;
        let keys = parse(BufReader::new(file.take(bytes_max)), catalog_id);
        let keys = keys.with_context(|| {
            format!(
                "{} is damaged; the next start with the catalog writes it again",
                path.display()
            )
        })?;
        let confirmed_at = confirmed_at?;
        Ok(keys.map(|keys| Self { keys, confirmed_at }))
    }

    /// Time since the catalog was last known to have these keys; none if the clock was set back.
    pub fn age(&self) -> Duration {
        self.confirmed_at.elapsed().unwrap_or_default()
    }
}

/// Path of the file.
fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("project-keys")
}

/// Describes the metric of the table's age.
fn describe() {
    describe_gauge!(
        KEY_TABLE_AGE,
        Unit::Seconds,
        "Time since the table of project keys in the data folder was last known to be what the catalog has"
    );
}

/// Sets the metric of the table's age.
fn set_age(age: Duration) {
    gauge!(KEY_TABLE_AGE).set(age.as_secs_f64());
}

/// Parses a table; `None` if it is one of another catalog.
fn parse(lines: impl BufRead, catalog_id: Uuid) -> anyhow::Result<Option<Vec<ListedKey>>> {
    let mut lines = lines.lines();
    let title = lines.next().context("it is empty")??;
    let id = title.strip_prefix(TITLE).context("it has another form")?;
    if id != catalog_id.to_string() {
        return Ok(None);
    }
    let mut keys = Vec::new();
    for line in lines {
        let line = line?;
        if let Some(count) = line.strip_prefix(END) {
            if count != keys.len().to_string() {
                bail!("it has {} keys instead of {count}", keys.len());
            }
            return Ok(Some(keys));
        }
        let key = parse_key(&line);
        keys.push(key.with_context(|| format!("line {} is no key", keys.len() + 2))?);
    }
    bail!("its end is missing")
}

fn parse_key(line: &str) -> Option<ListedKey> {
    let mut fields = line.splitn(5, ' ');
    let project = ProjectKey {
        project_id: ProjectId(fields.next()?.parse().ok()?),
        organization_id: fields.next()?.parse().ok()?,
        anonymize_ips: fields.next()?.parse().ok()?,
        ingested_event: fields.next()?.parse().ok()?,
    };
    let key = fields.next().filter(|key| !key.is_empty())?.to_owned();
    (key.len() <= PROJECT_KEY_BYTES_MAX).then_some(ListedKey { key, project })
}

/// Line of a key.
fn line_of(listed: &ListedKey) -> String {
    let ListedKey { key, project } = listed;
    format!(
        "{} {} {} {} {key}\n",
        project.project_id.0,
        project.organization_id,
        project.anonymize_ips,
        project.ingested_event
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(project_id: i64, key: &str) -> ListedKey {
        let project = ProjectKey {
            project_id: ProjectId(project_id),
            organization_id: Uuid::from_u128(7),
            anonymize_ips: project_id == 1,
            ingested_event: project_id != 1,
        };
        let key = key.to_owned();
        ListedKey { key, project }
    }

    fn text(id: Uuid, keys: &[ListedKey]) -> String {
        let lines: String = keys.iter().map(line_of).collect();
        format!("{TITLE}{id}\n{lines}{END}{}\n", keys.len())
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_only_by_its_catalog() {
        let (id, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        for keys in [vec![], vec![listed(1, "phc_a"), listed(2, "a key:of=old")]] {
            let text = text(id, &keys);
            assert_eq!(parse(text.as_bytes(), other).unwrap(), None);
            assert_eq!(parse(text.as_bytes(), id).unwrap(), Some(keys));
        }
    }

    #[test]
    fn a_table_that_is_cut_off_or_changed_is_damaged() {
        let id = Uuid::from_u128(1);
        let whole = text(id, &[listed(1, "phc_a"), listed(2, "phc_b")]);
        let long = "x".repeat(PROJECT_KEY_BYTES_MAX + 1);
        for damaged in [
            String::new(),
            "{}".to_owned(),
            whole.replace("end 2\n", ""),
            whole.replace("end 2", "end 3"),
            whole.replace("1 00000000", "one 00000000"),
            whole.replace("phc_a", ""),
            whole.replace("phc_a", &long),
        ] {
            parse(damaged.as_bytes(), id).unwrap_err();
        }
    }
}
