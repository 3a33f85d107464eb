//! Pending request of a resend: kept in the data folder from before it is sent until its outcome is
//! recorded.
//!
//! A resend that is stopped at any moment leaves the request there. The next one sends it
//! unchanged, so that the server recognises what is stored already, and corrects only the other
//! events. Nothing of a truncated file was sent, as the file is synced before.

use super::corrected::CorrectedEvent;
use crate::locked_file::LockedFile;
use anyhow::{Context, bail};
use millrace_clickhouse::RejectedEvent;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "resending.json";
/// Attempts to lock the file, which others may remove between its opening and its lock.
const TRIES_MAX: u32 = 100;

/// Lock on resending from a data folder, and the file of its pending request.
#[derive(Debug)]
pub(super) struct PendingResend {
    file: LockedFile,
    path: PathBuf,
}

/// Request that an earlier resend left pending.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) historical_migration: bool,
    pub(super) project_id: i64,
    pub(super) events: Vec<RejectedEvent>,
    /// The events as they were sent.
    jsons: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Serialize)]
struct StoredRequest {
    team_id: i64,
    historical_migration: bool,
    events: Vec<StoredEvent>,
}

/// Identity of a rejected event, and its JSON as it is sent.
#[derive(Deserialize, Serialize)]
struct StoredEvent {
    received_at: i64,
    request_id: String,
    index: u32,
    json: Box<RawValue>,
}

// === impl PendingResend ===

impl PendingResend {
    /// Locks resending from a data folder until this is dropped.
    ///
    /// # Errors
    /// When the folder cannot be written, or another process holds the lock.
    pub(super) fn take(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join(NAME);
        let at = || format!("cannot write {}", path.display());
        for _ in 0..TRIES_MAX {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true);
            let file = LockedFile(options.mode(0o600).open(&path).with_context(at)?);
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!(
                    "another `millrace rejected resend` is under way in {}; try again when it has ended",
                    data_dir.display()
                ),
                Err(TryLockError::Error(error)) => return Err(error).with_context(at),
            }
            // Another process may have removed the file before it was locked; its lock excludes
            // nobody then.
            if is_at(&file, &path).with_context(at)? {
                return Ok(Self { file, path });
            }
        }
        bail!(
            "other resends keep starting in {}; run the command again",
            data_dir.display()
        )
    }

    /// File that the request is kept in.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the request that an earlier resend left, if one did.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn load(&mut self) -> anyhow::Result<Option<PendingRequest>> {
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
                let written = serde_json::from_str::<StoredRequest>(&text);
                Ok(written.ok().map(PendingRequest::from))
            }
        }
    }

    /// Stores a request that is about to be sent.
    ///
    /// # Errors
    /// Those of the disk; the request must not be sent then.
    pub(super) fn store(
        &mut self,
        (project_id, historical_migration): (i64, bool),
        events: &[CorrectedEvent<'_>],
    ) -> anyhow::Result<()> {
        let events = events.iter().map(|corrected| StoredEvent {
            received_at: corrected.event.received_at,
            request_id: corrected.event.request_id.clone(),
            index: corrected.event.index,
            json: corrected.json.clone(),
        });
        let text = serde_json::to_vec(&StoredRequest {
            team_id: project_id,
            historical_migration,
            events: events.collect(),
        })?;
        let written = self
            .empty()
            .and_then(|()| self.file.write_all(&text))
            .and_then(|()| self.file.sync_all());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Removes the request: its outcome is recorded, or nothing of it is stored.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn clear(&mut self) -> anyhow::Result<()> {
        self.empty()
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }
}

impl Drop for PendingResend {
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            // An empty file that stays means nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns true if the path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

// === impl PendingRequest ===

impl PendingRequest {
    /// The events as they were sent.
    pub(super) fn corrected(&self) -> Vec<CorrectedEvent<'_>> {
        let both = self.events.iter().zip(&self.jsons);
        both.map(|(event, json)| CorrectedEvent {
            event,
            json: json.clone(),
        })
        .collect()
    }
}

impl From<StoredRequest> for PendingRequest {
    fn from(written: StoredRequest) -> Self {
        let (project_id, historical_migration) = (written.team_id, written.historical_migration);
        let both = written.events.into_iter().map(|it| {
            let event = RejectedEvent {
                team_id: project_id,
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
            project_id,
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

    /// Stores a request of two events, as if the resend was killed then.
    fn kept(dir: &TempDir) -> (PathBuf, Vec<u8>) {
        let mut pending = PendingResend::take(dir.path()).unwrap();
        assert!(pending.load().unwrap().is_none());
        let events = [event(0), event(3)];
        let raws = [r#"{ "n": 1.50,"uuid":"a"}"#, r#"{"uuid":"b","s":"\ud800"}"#];
        let corrected: Vec<_> = events
            .iter()
            .zip(raws)
            .map(|(event, raw)| CorrectedEvent {
                event,
                json: RawValue::from_string(raw.to_owned()).unwrap(),
            })
            .collect();
        pending.store((7, true), &corrected).unwrap();
        let path = pending.path().to_owned();
        let written = std::fs::read(&path).unwrap();
        (path, written)
    }

    #[test]
    fn a_pending_request_is_found_unchanged_until_it_is_cleared() {
        let dir = TempDir::new().unwrap();
        let (path, _) = kept(&dir);
        let mut next = PendingResend::take(dir.path()).unwrap();
        let request = next.load().unwrap().unwrap();
        assert_eq!(
            (request.project_id, request.historical_migration),
            (7, true)
        );
        let found: Vec<_> = request
            .corrected()
            .iter()
            .map(|it| (it.event.index, it.json.get().to_owned()))
            .collect();
        let expected = [
            (0, r#"{ "n": 1.50,"uuid":"a"}"#.to_owned()),
            (3, r#"{"uuid":"b","s":"\ud800"}"#.to_owned()),
        ];
        assert_eq!(found, expected);
        next.clear().unwrap();
        assert!(next.load().unwrap().is_none());
        drop(next);
        assert!(!path.exists());
    }

    #[test]
    fn a_truncated_file_holds_no_pending_request() {
        let dir = TempDir::new().unwrap();
        let (path, written) = kept(&dir);
        for length in 0..written.len() {
            std::fs::write(&path, &written[..length]).unwrap();
            let mut next = PendingResend::take(dir.path()).unwrap();
            assert!(next.load().unwrap().is_none(), "{length}");
        }
    }

    #[test]
    fn a_second_resend_at_the_same_time_is_rejected() {
        let dir = TempDir::new().unwrap();
        let first = PendingResend::take(dir.path()).unwrap();
        let rejected = PendingResend::take(dir.path()).unwrap_err().to_string();
        assert!(rejected.contains("another `millrace rejected resend`"));
        drop(first);
        PendingResend::take(dir.path()).unwrap();
    }
}
