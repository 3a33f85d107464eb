//! The request of a resend that is on its way: kept in the data folder from before it is sent until what became of its
//! events is noted.
//!
//! A resend that is stopped, whenever, leaves the request there. The next one sends it as it was sent then, so that what is
//! stored already is known again, and mends only the others as it is told. Nothing of a file that was cut off was sent, as
//! it is synced before.

use super::mended::Mended;
use anyhow::{Context, bail};
use millrace_clickhouse::RejectedEvent;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "resending.json";
/// Times that the file may be removed between its opening and its lock.
const TRIES_MAX: u32 = 100;

/// The right to resend from a data folder, which one process has at a time.
#[derive(Debug)]
pub(super) struct OnItsWay {
    file: File,
    path: PathBuf,
}

/// A request that an earlier resend left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) historical_migration: bool,
    pub(super) team_id: i64,
    pub(super) events: Vec<RejectedEvent>,
    /// The events as they were sent.
    jsons: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Serialize)]
struct Written {
    team_id: i64,
    historical_migration: bool,
    events: Vec<WrittenEvent>,
}

/// Which refused event it is, and how it is sent.
#[derive(Deserialize, Serialize)]
struct WrittenEvent {
    received_at: i64,
    request_id: String,
    index: u32,
    json: Box<RawValue>,
}

// === impl OnItsWay ===

impl OnItsWay {
    /// Takes the right to resend from a data folder; it is given back when this is dropped.
    ///
    /// # Errors
    /// When the folder cannot be written, or another process has it.
    pub(super) fn take(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join(NAME);
        let at = || format!("cannot write {}", path.display());
        for _ in 0..TRIES_MAX {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true);
            let file = options.mode(0o600).open(&path).with_context(at)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!(
                    "another `millrace rejected resend` is under way in {}; try again when it has ended",
                    data_dir.display()
                ),
                Err(TryLockError::Error(error)) => return Err(error).with_context(at),
            }
            // Another one may have removed it before it was locked, and its lock keeps nobody off then.
            if is_at(&file, &path).with_context(at)? {
                return Ok(Self { file, path });
            }
        }
        bail!("other resends begin and end in {}", data_dir.display())
    }

    /// Where the request is kept.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The request that an earlier resend left, if one did.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn left(&mut self) -> anyhow::Result<Option<Left>> {
        let mut text = String::new();
        let read = self
            .file
            .rewind()
            .and_then(|()| self.file.read_to_string(&mut text));
        match read {
            Err(error) if error.kind() != ErrorKind::InvalidData => {
                Err(error).with_context(|| format!("cannot read {}", self.path.display()))
            }
            _ => {
                let written = serde_json::from_str::<Written>(&text);
                Ok(written.ok().map(Left::from))
            }
        }
    }

    /// Keeps a request that is about to be sent.
    ///
    /// # Errors
    /// Those of the disk; it must not be sent then.
    pub(super) fn keep(
        &mut self,
        (team_id, historical_migration): (i64, bool),
        events: &[Mended<'_>],
    ) -> anyhow::Result<()> {
        let events = events.iter().map(|mended| WrittenEvent {
            received_at: mended.event.received_at,
            request_id: mended.event.request_id.clone(),
            index: mended.event.index,
            json: mended.json.clone(),
        });
        let text = serde_json::to_vec(&Written {
            team_id,
            historical_migration,
            events: events.collect(),
        })?;
        let written = self
            .empty()
            .and_then(|()| self.file.write_all(&text))
            .and_then(|()| self.file.sync_all());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Forgets the request: what became of its events is noted, or nothing of it is stored.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn settled(&mut self) -> anyhow::Result<()> {
        self.empty()
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            // An empty one that stays says nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether this file is the one that the path leads to.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

// === impl Left ===

impl Left {
    /// The events as they were sent.
    pub(super) fn mended(&self) -> Vec<Mended<'_>> {
        let both = self.events.iter().zip(&self.jsons);
        both.map(|(event, json)| Mended {
            event,
            json: json.clone(),
        })
        .collect()
    }
}

impl From<Written> for Left {
    fn from(written: Written) -> Self {
        let (team_id, historical_migration) = (written.team_id, written.historical_migration);
        let both = written.events.into_iter().map(|it| {
            let event = RejectedEvent {
                team_id,
                received_at: it.received_at,
                request_id: it.request_id,
                index: it.index,
                code: String::new(),
                attr: String::new(),
                detail: String::new(),
                historical_migration,
                resent_at: 0,
            };
            (event, it.json)
        });
        let (events, jsons) = both.unzip();
        Self {
            historical_migration,
            team_id,
            events,
            jsons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn event(index: u32) -> RejectedEvent {
        RejectedEvent {
            team_id: 7,
            received_at: 1_700_000_000_000_000,
            request_id: "r".to_owned(),
            index,
            code: "missing_distinct_id".to_owned(),
            attr: String::new(),
            detail: String::new(),
            historical_migration: true,
            resent_at: 0,
        }
    }

    /// Keeps a request of two events, as if the resend was killed then.
    fn kept(dir: &TempDir) -> (PathBuf, Vec<u8>) {
        let mut on_its_way = OnItsWay::take(dir.path()).unwrap();
        assert!(on_its_way.left().unwrap().is_none());
        let events = [event(0), event(3)];
        let raws = [r#"{ "n": 1.50,"uuid":"a"}"#, r#"{"uuid":"b","s":"\ud800"}"#];
        let mended: Vec<_> = events
            .iter()
            .zip(raws)
            .map(|(event, raw)| Mended {
                event,
                json: RawValue::from_string(raw.to_owned()).unwrap(),
            })
            .collect();
        on_its_way.keep((7, true), &mended).unwrap();
        let path = on_its_way.path().to_owned();
        let written = std::fs::read(&path).unwrap();
        (path, written)
    }

    #[test]
    fn a_request_that_was_left_is_found_to_the_letter_until_it_is_settled() {
        let dir = TempDir::new().unwrap();
        let (path, _) = kept(&dir);
        let mut next = OnItsWay::take(dir.path()).unwrap();
        let left = next.left().unwrap().unwrap();
        assert_eq!((left.team_id, left.historical_migration), (7, true));
        let found: Vec<_> = left
            .mended()
            .iter()
            .map(|it| (it.event.index, it.json.get().to_owned()))
            .collect();
        let expected = [
            (0, r#"{ "n": 1.50,"uuid":"a"}"#.to_owned()),
            (3, r#"{"uuid":"b","s":"\ud800"}"#.to_owned()),
        ];
        assert_eq!(found, expected);
        next.settled().unwrap();
        assert!(next.left().unwrap().is_none());
        drop(next);
        assert!(!path.exists());
    }

    #[test]
    fn of_a_file_that_was_cut_off_nothing_was_sent() {
        let dir = TempDir::new().unwrap();
        let (path, written) = kept(&dir);
        for length in 0..written.len() {
            std::fs::write(&path, &written[..length]).unwrap();
            let mut next = OnItsWay::take(dir.path()).unwrap();
            assert!(next.left().unwrap().is_none(), "{length}");
        }
    }

    #[test]
    fn two_resends_at_once_are_refused() {
        let dir = TempDir::new().unwrap();
        let first = OnItsWay::take(dir.path()).unwrap();
        let refused = OnItsWay::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another `millrace rejected resend`"));
        drop(first);
        OnItsWay::take(dir.path()).unwrap();
    }
}
