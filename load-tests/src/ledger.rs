//! Ledger file of acknowledged batches.
//!
//! It has one line per acknowledged batch, written when the 200 arrives and before the connection
//! sends again: run, connection, batch, number of events. A run begins with a line of its own,
//! which says how many events every batch of it has, so that batches without a response can be
//! verified, too:
//!
//! ```text
//! 1a2b3c4d begin 250
//! 1a2b3c4d 0 0 250
//! 1a2b3c4d 3 0 250
//! ```
//!
//! Lines are single, unbuffered appends. A killed generator loses at most the line it was writing,
//! and several runs may share a file, even at the same time.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Writes the acknowledged batches of one run.
#[derive(Debug)]
pub struct AckLedgerWriter {
    file: File,
    run: u32,
}

impl AckLedgerWriter {
    /// Opens or creates the file and begins a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(path: &Path, run: u32, batch_events: u32) -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot write the ledger {}", path.display()))?;
        let writer = Self { file, run };
        writer.put(&format!("{run:08x} begin {batch_events}\n"))?;
        Ok(writer)
    }

    /// Records an acknowledged batch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn acknowledged(&self, connection: u16, batch: u32, events: u32) -> Result<()> {
        self.put(&format!("{:08x} {connection} {batch} {events}\n", self.run))
    }

    fn put(&self, line: &str) -> Result<()> {
        (&self.file)
            .write_all(line.as_bytes())
            .context("cannot write the ledger")
    }
}

/// Acknowledged batches of all runs in a ledger file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckLedger {
    /// Acknowledged batches by run id.
    pub runs: BTreeMap<u32, RunAcks>,
}

/// Acknowledged batches of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunAcks {
    /// Number of events in every batch of the run.
    pub batch_events: u32,
    /// Number of events of each acknowledged batch, by (connection, batch).
    pub acknowledged: std::collections::HashMap<(u16, u32), u32>,
}

impl RunAcks {
    /// Number of events in all acknowledged batches.
    #[must_use]
    pub fn acknowledged_events(&self) -> u64 {
        self.acknowledged.values().copied().map(u64::from).sum()
    }
}

impl AckLedger {
    /// Number of events in all acknowledged batches of all runs.
    #[must_use]
    pub fn acknowledged_events(&self) -> u64 {
        self.runs.values().map(RunAcks::acknowledged_events).sum()
    }

    /// Reads a ledger file. An incomplete last line is ignored: the generator never went on after
    /// it.
    ///
    /// # Errors
    /// The file cannot be read or is not a ledger.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the ledger {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a ledger", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut ledger = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        for (at, line) in whole.lines().enumerate() {
            if ledger.parse_line(line).is_none() {
                bail!("line {}: {line:?}", at + 1);
            }
        }
        Ok(ledger)
    }

    fn parse_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let run = u32::from_str_radix(words.next()?, 16).ok()?;
        let second = words.next()?;
        if second == "begin" {
            let run = self.runs.entry(run).or_default();
            run.batch_events = words.next()?.parse().ok()?;
        } else {
            let batch = (second.parse().ok()?, words.next()?.parse().ok()?);
            let events = words.next()?.parse().ok()?;
            self.runs.get_mut(&run)?.acknowledged.insert(batch, events);
        }
        words.next().is_none().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_ledger_is_read_back(
            run in any::<u32>(),
            batches in proptest::collection::hash_set((any::<u16>(), any::<u32>()), 0..50),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("ledger");
            let writer = AckLedgerWriter::begin(&path, run, 250).unwrap();
            for (connection, batch) in &batches {
                writer.acknowledged(*connection, *batch, 250).unwrap();
            }
            let ledger = AckLedger::read(&path).unwrap();
            let found = &ledger.runs[&run];
            prop_assert_eq!(found.batch_events, 250);
            prop_assert_eq!(found.acknowledged_events(), 250 * batches.len() as u64);
            prop_assert!(batches.iter().all(|batch| found.acknowledged.contains_key(batch)));
        }
    }

    #[test]
    fn runs_share_a_file_and_a_torn_last_line_is_ignored() {
        let text =
            "0000000a begin 2\n0000000b begin 1\n0000000a 0 0 2\n0000000b 1 7 1\n0000000a 0 1";
        let ledger = AckLedger::parse(text).unwrap();
        assert_eq!(ledger.runs[&10].acknowledged, [((0, 0), 2)].into());
        assert_eq!(ledger.runs[&11].acknowledged, [((1, 7), 1)].into());
        assert_eq!(AckLedger::parse("").unwrap(), AckLedger::default());
    }

    #[test]
    fn a_file_that_is_no_ledger_is_refused_with_its_line() {
        for text in [
            "hello\n",
            "0000000a 0 0 2\n",
            "0000000a begin 2\n0000000a 70000 0 2\n",
            "0000000a begin 2 3\n",
        ] {
            let error = AckLedger::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("line "), "{error}");
        }
    }
}
