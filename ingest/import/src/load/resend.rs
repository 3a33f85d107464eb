//! Resend of rejects.
//!
//! Rejects to be sent are moved from the file of rejects to one of their own, `resending.ndjson`;
//! those refused again are appended to the file of rejects as in any import. So every refused
//! record is in one of the two files, once, and a resend that ended early is continued before the
//! next one starts. Records that were mended and accepted are in neither.

use super::Uploader;
use super::reader::PriorRecords;
use super::sender::SendResult;
use super::tracker::Tracker;
use crate::count::counted;
use crate::files::{SourceFile, find};
use crate::journal::{Journal, RecordStatus, Refusals};
use crate::rejected_records::{DedupBy, Reject, rewrite};
use crate::staging::write_whole;
use anyhow::{Context, bail};
use millrace_sources::{Format, Position, framing};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Error code of a line that is too long to be read.
const TOO_LARGE: &str = "record_too_large";

impl Uploader<'_> {
    /// Sends the records of a file of rejects again.
    pub(super) fn resend(
        &self,
        rejects: &Path,
        tracker: &mut Tracker,
    ) -> anyhow::Result<SendResult> {
        let (resending, journal) = (self.folder.resending(), self.folder.journal());
        if resending.exists() {
            let ended = self.resend_staged(tracker)?;
            if ended.stop.is_some() || !ended.broken.is_empty() {
                return Ok(ended);
            }
        }
        let refusals = Refusals::read(&journal)?;
        let from = self.rejects_file(rejects)?;
        let staged = stage(&from, &resending, &refusals)?;
        tracker.left_out += staged.left_out;
        let lines = staged.too_long.iter();
        let lines = lines.map(|line| format!("{}:{line}", from.name()));
        tracker.passed_over.extend(lines);
        tracker.record_file(&source_file(&resending)?, false)?;
        if refusals.resent_unlisted(&from.name(), from.bytes) > 0 {
            tracker.record_file(&from, true)?;
        }
        let own = self.folder.rejects();
        let stays = |reject: &Reject| refusals.keeps(reject) && !staged.contains(reject);
        rewrite(&own, DedupBy::Record, &stays)?;
        tracker.reopen(&own)?;
        self.resend_staged(tracker)
    }

    /// Sends the rest of the staged rejects.
    fn resend_staged(&self, tracker: &mut Tracker) -> anyhow::Result<SendResult> {
        let (own, journal) = (self.folder.rejects(), self.folder.journal());
        let file = source_file(&self.folder.resending())?;
        let (progress, refusals) = (Journal::read(&journal)?, Refusals::read(&journal)?);
        let work = match progress.files.get(&file.name()) {
            Some(known) if known.file_bytes == file.bytes && known.is_end => Vec::new(),
            Some(known) if known.file_bytes == file.bytes => vec![(file.clone(), known.next)],
            // Staged, but none was sent.
            _ => vec![(file.clone(), Position::default())],
        };
        let ended = self.send(work, PriorRecords::Refusals(&refusals), tracker)?;
        if ended.stop.is_some() || !ended.broken.is_empty() {
            return Ok(ended);
        }
        let refusals = Refusals::read(&journal)?;
        rewrite(&own, DedupBy::Record, &|reject| refusals.keeps(reject))?;
        tracker.reopen(&own)?;
        tracker.record_file(&file, true)?;
        std::fs::remove_file(&file.path)
            .with_context(|| format!("cannot remove {}", file.path.display()))?;
        Ok(ended)
    }

    /// Finds the file of rejects by the user's path, which may be that of the old compressed file.
    fn rejects_file(&self, rejects: &Path) -> anyhow::Result<SourceFile> {
        let own = self.folder.rejects();
        let packed = self.folder.packed_rejects();
        let is_packed = rejects.file_name() == packed.file_name()
            && !rejects.exists()
            && rejects.with_file_name("").canonicalize().ok()
                == packed.with_file_name("").canonicalize().ok();
        let path = if is_packed { own } else { rejects.to_owned() };
        let files = find(&[path.to_string_lossy().into_owned()])?;
        match <[SourceFile; 1]>::try_from(files) {
            Ok([file]) => Ok(file),
            Err(files) => bail!(
                "{} is {}; name the one file of rejects that is to be sent again",
                rejects.display(),
                counted(files.len() as u64, "file")
            ),
        }
    }
}

fn source_file(path: &Path) -> anyhow::Result<SourceFile> {
    let metadata = path.metadata();
    let metadata = metadata.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(SourceFile {
        path: path.to_owned(),
        entry: None,
        bytes: metadata.len(),
    })
}

/// Rejects that are staged for a resend.
struct Staged {
    /// Line of each record, and a digest of the record.
    lines: HashMap<(String, u64), (u64, u64)>,
    /// Number of records that were brought in before.
    left_out: u64,
    /// Numbers of lines that are too long to be read, which stay in their file.
    too_long: Vec<u64>,
}

impl Staged {
    fn contains(&self, reject: &Reject) -> bool {
        let key = (reject.file.clone(), reject.ordinal);
        self.lines.contains_key(&key)
    }
}

/// Copies the rejects of a file that are still to be sent, without duplicates.
fn stage(from: &SourceFile, to: &Path, refusals: &Refusals) -> anyhow::Result<Staged> {
    let resent = refusals.resent_unlisted(&from.name(), from.bytes);
    let mut staged = Staged {
        lines: HashMap::new(),
        left_out: 0,
        too_long: Vec::new(),
    };
    let at = || format!("cannot read {}", from.name());
    let input = from.open(&Arc::default()).with_context(at)?;
    let mut rejects = framing::json(input, Position::default()).with_context(at)?;
    write_whole(to, |out| {
        while let Some(record) = rejects.next().with_context(at)? {
            let line = record.at.line + 1;
            let reject: Reject = match record.error {
                Some(error) if error.code == TOO_LARGE => {
                    staged.too_long.push(line);
                    continue;
                }
                Some(error) => bail!("{}:{line}: {error}", from.name()),
                None => {
                    serde_json::from_slice(record.raw).with_context(|| unreadable(from, line))?
                }
            };
            if Format::from_name(&reject.format).is_none() {
                bail!(
                    "{}; there is no format {}",
                    unreadable(from, line),
                    reject.format
                );
            }
            let is_settled =
                record.at.ordinal < resent || refusals.status(&reject) == RecordStatus::Settled;
            let digest = xxh3_64(reject.raw.as_bytes());
            match staged.lines.entry((reject.file.clone(), reject.ordinal)) {
                _ if is_settled => staged.left_out += 1,
                Entry::Occupied(known) if known.get().1 == digest => {}
                Entry::Occupied(known) => bail!(conflicting(from, &reject, known.get().0, line)),
                Entry::Vacant(new) => {
                    new.insert((line, digest));
                    serde_json::to_writer(&mut *out, &reject)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        Ok(())
    })?;
    Ok(staged)
}

fn conflicting(from: &SourceFile, reject: &Reject, line: u64, other: u64) -> String {
    format!(
        "{} has the record of {}:{} twice, and not the same, in its lines {line} and {other}. \
         Remove one of them, then run the same command again; nothing was sent",
        from.name(),
        reject.file,
        reject.line
    )
}

fn unreadable(from: &SourceFile, line: u64) -> String {
    format!(
        "{}:{line} is not a reject. Correct the line or remove it, then run the same command again; nothing was sent",
        from.name()
    )
}
