//! Sections that wait until there are enough of them, or they are old enough.

use super::{Now, Plan};
use crate::ship::insert_batch::{InsertBatch, LogSpan, rows_mark};
use crate::ship::limits::Limits;
use crate::ship::section::{InsertKey, Section, SectionPosition};
use millrace_rows::{Month, Table};
use std::collections::VecDeque;
use std::time::Duration;

/// Suspect sections that are sent together: if some are stored already, their batch is halved down
/// to those.
const SUSPECTS_MAX: usize = 256;
/// Most sections of a batch. Full batches have a third of that; without a limit, one that waited
/// for long would take all the capacity, and be halved for as long if one of its rows is bad.
const SECTIONS_MAX: usize = 4_096;

/// A key whose rows are to be sent.
pub(super) struct Due {
    pub(super) key: InsertKey,
    /// True if the rows are sent early, from the bucket of older months.
    pub(super) is_early: bool,
}

/// The sections of a key that are not in a batch yet, each with the time it was read.
#[derive(Debug)]
pub(super) struct WaitingSections<S> {
    pub(super) sections: VecDeque<(Duration, Section<S>)>,
    rows: u64,
    row_bytes: u64,
}

impl<S: Clone> Plan<S> {
    /// Time at which the next batch that has a permit falls due by age, or the next part; `None`
    /// when no such batch waits.
    pub fn next_due(&self, recent: Month) -> Option<Duration> {
        let waiting = self.waiting_with_permit();
        let dues = waiting.filter_map(|(key, waiting)| self.due(key, waiting, recent));
        dues.chain(self.parts_due()).min()
    }

    /// Keys of which a batch may be sent once it is due.
    fn waiting_with_permit(&self) -> impl Iterator<Item = (&InsertKey, &WaitingSections<S>)> {
        let (permits, blocked) = (self.permits_left(), self.blocked());
        let waiting = self.waiting.iter();
        waiting.filter(move |(key, _)| permits.have(key) && !blocked.contains(key))
    }

    /// Time at which the rows of a key have waited long enough. Rows of older months wait for more,
    /// unless few of them come: then they are sent as early as others.
    fn due(
        &self,
        key: &InsertKey,
        waiting: &WaitingSections<S>,
        recent: Month,
    ) -> Option<Duration> {
        let early = waiting.since()? + self.limits.age_early();
        let early = early.max(self.early_sends.free_at(&self.limits));
        Some(self.due_at_last(key, waiting, recent)?.min(early))
    }

    /// Time at which rows that are not sent early have waited long enough. Person updates that
    /// somebody waits for do not wait for more.
    fn due_at_last(
        &self,
        key: &InsertKey,
        waiting: &WaitingSections<S>,
        recent: Month,
    ) -> Option<Duration> {
        let first = waiting.first()?;
        let is_wanted =
            first.frame < self.updates_wanted && key.table() == Some(Table::PersonUpdates);
        let age = match is_wanted {
            true => Duration::ZERO,
            false => self.limits.age(key, recent),
        };
        Some(waiting.since()? + age)
    }

    /// Returns the key to send next, of those that have a permit: full ones before aged ones, then
    /// the one that has waited longest.
    pub(super) fn most_due(&self, now: Now) -> Option<Due> {
        let pressed = !self.has_capacity() || now.is_draining;
        let due = self.waiting_with_permit().filter_map(|(key, waiting)| {
            let since = waiting.since()?;
            let is_full = waiting.rows >= self.limits.rows_target
                || waiting.row_bytes >= self.limits.bytes_target;
            let is_due = is_full || pressed || now.elapsed >= self.due(key, waiting, now.recent)?;
            is_due.then_some((!is_full, since, key))
        });
        let (is_partial, _, key) = due.min()?;
        let at_last = self.due_at_last(key, self.waiting.get(key)?, now.recent)?;
        let is_aged = now.elapsed >= at_last;
        Some(Due {
            key: key.clone(),
            is_early: is_partial && !pressed && !is_aged,
        })
    }

    pub(super) fn take(&mut self, key: &InsertKey) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        let sections = waiting.take(&self.limits);
        if waiting.sections.is_empty() {
            self.waiting.remove(key);
        }
        let Some(span) = LogSpan::of(&sections) else {
            return;
        };
        self.taken.insert(key.clone(), span.last);
        let is_suspect = sections.iter().any(|section| section.is_suspect);
        self.add_in_flight(InsertBatch {
            key: key.clone(),
            rows_mark: Some(rows_mark(&sections)),
            sections,
            span,
            range: None,
            start_mark: Some(self.start_mark),
            attempt: 0,
            in_doubt: is_suspect,
            is_suspect,
            boot_id: None,
            is_part: false,
        });
    }
}

// === impl WaitingSections ===

impl<S> Default for WaitingSections<S> {
    fn default() -> Self {
        Self {
            sections: VecDeque::new(),
            rows: 0,
            row_bytes: 0,
        }
    }
}

impl<S> WaitingSections<S> {
    pub(super) fn first(&self) -> Option<SectionPosition> {
        self.sections.front().map(|(_, section)| section.position)
    }

    fn since(&self) -> Option<Duration> {
        self.sections.front().map(|(since, _)| *since)
    }

    pub(super) fn push(&mut self, section: Section<S>, now: Duration) {
        self.rows += u64::from(section.rows);
        self.row_bytes += section.row_bytes;
        self.sections.push_back((now, section));
    }

    /// Takes the sections of one batch, from the oldest on: never empty unless nothing waits.
    fn take(&mut self, limits: &Limits) -> Vec<Section<S>> {
        let mut taken: Vec<Section<S>> = Vec::new();
        let (mut rows, mut row_bytes) = (0, 0);
        while let Some((_, next)) = self.sections.front() {
            let is_full = rows >= limits.rows_target || row_bytes >= limits.bytes_target;
            rows += u64::from(next.rows);
            row_bytes += next.row_bytes;
            // Suspect sections are looked up together, and with none that need not be.
            let is_apart = taken
                .iter()
                .any(|section| section.is_suspect != next.is_suspect);
            let sections_max = if next.is_suspect {
                SUSPECTS_MAX
            } else {
                SECTIONS_MAX
            };
            let is_long = taken.len() >= sections_max;
            let fits = Limits::fits(rows, row_bytes) && !is_apart && !is_full && !is_long;
            if !taken.is_empty() && !fits {
                break;
            }
            if let Some((_, section)) = self.sections.pop_front() {
                self.rows = self.rows.saturating_sub(u64::from(section.rows));
                self.row_bytes = self.row_bytes.saturating_sub(section.row_bytes);
                taken.push(section);
            }
        }
        taken
    }
}
