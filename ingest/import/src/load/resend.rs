//! Rejects that are sent again.
//!
//! Those that are to be sent leave the file of rejects for one of their own, `resending.ndjson`; what is refused again is
//! appended to the file of rejects as in any import. So every record that is refused stands in one of the two, once, and a
//! resend that ended in the middle is gone on with before the next one begins. What was mended and taken is in neither.

use super::Sending;
use super::reading::Known;
use super::sending::Ended;
use super::tracker::Tracker;
use crate::count::counted;
use crate::files::{SourceFile, find};
use crate::journal::{Journal, Known as Record, Refusals};
use crate::reject::{Doubles, Reject, rewrite};
use crate::staging::write_whole;
use anyhow::{Context, bail};
use millrace_sources::{Format, Position, framing};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The code of a line that is longer than any that is read.
const TOO_LARGE: &str = "record_too_large";

impl Sending<'_> {
    /// Sends the records of a file of rejects again.
    pub(super) fn resend(&self, rejects: &Path, tracker: &mut Tracker) -> anyhow::Result<Ended> {
        let (resending, journal) = (self.folder.resending(), self.folder.journal());
        if resending.exists() {
            let ended = self.resend_staged(tracker)?;
            if ended.stop.is_some() || !ended.broken.is_empty() {
                return Ok(ended);
            }
        }
        let refusals = Refusals::read(&journal)?;
        let from = self.named(rejects)?;
        let staged = stage(&from, &resending, &refusals)?;
        tracker.left_out += staged.left_out;
        let lines = staged.too_long.iter();
        let lines = lines.map(|line| format!("{}:{line}", from.name()));
        tracker.passed_over.extend(lines);
        tracker.note(&source_file(&resending)?, false)?;
        if refusals.resent_unlisted(&from.name(), from.bytes) > 0 {
            tracker.note(&from, true)?;
        }
        let own = self.folder.rejects();
        let stays = |reject: &Reject| refusals.keeps(reject) && !staged.contains(reject);
        rewrite(&own, Doubles::OfRecord, &stays)?;
        tracker.reopen(&own)?;
        self.resend_staged(tracker)
    }

    /// Sends what is left of those that were staged.
    fn resend_staged(&self, tracker: &mut Tracker) -> anyhow::Result<Ended> {
        let (own, journal) = (self.folder.rejects(), self.folder.journal());
        let file = source_file(&self.folder.resending())?;
        let (progress, refusals) = (Journal::read(&journal)?, Refusals::read(&journal)?);
        let work = match progress.files.get(&file.name()) {
            Some(known) if known.file_bytes == file.bytes && known.is_end => Vec::new(),
            Some(known) if known.file_bytes == file.bytes => vec![(file.clone(), known.next)],
            // Staged, and then nothing more.
            _ => vec![(file.clone(), Position::default())],
        };
        let ended = self.send(work, Known::Refusals(&refusals), tracker)?;
        if ended.stop.is_some() || !ended.broken.is_empty() {
            return Ok(ended);
        }
        let refusals = Refusals::read(&journal)?;
        rewrite(&own, Doubles::OfRecord, &|reject| refusals.keeps(reject))?;
        tracker.reopen(&own)?;
        tracker.note(&file, true)?;
        std::fs::remove_file(&file.path)
            .with_context(|| format!("cannot remove {}", file.path.display()))?;
        Ok(ended)
    }

    /// The file that was named; it may be called as it was before it was unpacked.
    fn named(&self, rejects: &Path) -> anyhow::Result<SourceFile> {
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

/// What is on its way again.
struct Staged {
    /// The line of each record, and a digest of the record.
    lines: HashMap<(String, u64), (u64, u64)>,
    /// Records that were brought in before.
    left_out: u64,
    /// Lines that are longer than any that is read, and stay where they are.
    too_long: Vec<u64>,
}

impl Staged {
    fn contains(&self, reject: &Reject) -> bool {
        let key = (reject.file.clone(), reject.ordinal);
        self.lines.contains_key(&key)
    }
}

/// Copies the rejects of a file that are still to be sent, each once.
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
            let reject: Reject = match record.fault {
                Some(fault) if fault.code == TOO_LARGE => {
                    staged.too_long.push(line);
                    continue;
                }
                Some(fault) => bail!("{}:{line}: {fault}", from.name()),
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
            let is_over = record.at.ordinal < resent || refusals.of(&reject) == Record::Settled;
            let digest = xxh3_64(reject.raw.as_bytes());
            match staged.lines.entry((reject.file.clone(), reject.ordinal)) {
                _ if is_over => staged.left_out += 1,
                Entry::Occupied(known) if known.get().1 == digest => {}
                Entry::Occupied(known) => bail!(twice(from, &reject, known.get().0, line)),
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

fn twice(from: &SourceFile, reject: &Reject, line: u64, other: u64) -> String {
    format!(
        "{} has the record of {}:{} twice, and not the same, in its lines {line} and {other}. Take one of them out, then \
         run the same command again; nothing was sent",
        from.name(),
        reject.file,
        reject.line
    )
}

fn unreadable(from: &SourceFile, line: u64) -> String {
    format!(
        "{}:{line} is no reject. Mend the line or take it out, then run the same command again; nothing was sent",
        from.name()
    )
}
