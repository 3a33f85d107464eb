//! Differences between events of the source, accepted and stored ones, by day and event.

use crate::chunk::ChunkReader;
use crate::event_counter::name_of;
use crate::event_counts::{Day, EventCounts};
use crate::files::SourceFile;
use crate::journal::ImportedChunk;
use crate::plan::Plan;
use crate::request::BodyPrefix;
use millrace_sources::scan::Members;
use millrace_sources::{FileError, Position};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use uuid::Uuid;

/// A day and event whose counts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The day in UTC.
    pub day: Day,
    /// Name of the event.
    pub event: String,
    /// Number of events in the files that the mapping keeps.
    pub source: u64,
    /// Number of these that the server accepted.
    pub accepted: u64,
    /// Number of stored events.
    pub stored: u64,
}

impl Difference {
    /// Returns true if fewer events are stored than were accepted.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.stored < self.accepted
    }
}

/// Compares the counts of a journal with the stored ones.
///
/// Generated events may be stored fewer times than they were sent, as several records give the
/// same one.
#[must_use]
pub fn differences(sum: &ImportedChunk, stored: &EventCounts) -> Vec<Difference> {
    let tallies = [&sum.made, &sum.accepted, &sum.generated, stored];
    let keys: BTreeSet<_> = tallies
        .iter()
        .flat_map(|counts| counts.iter())
        .map(|(day, event, _)| (day, event))
        .collect();
    keys.into_iter()
        .filter_map(|(day, event)| {
            let accepted = sum.accepted.get(day, event);
            let generated = sum.generated.get(day, event);
            let stored = stored.get(day, event);
            let is_right = (accepted + generated.min(1)..=accepted + generated).contains(&stored);
            (!is_right).then(|| Difference {
                day,
                event: event.to_owned(),
                source: sum.made.get(day, event),
                accepted,
                stored,
            })
        })
        .collect()
}

/// Removes the differences caused by duplicates in the source: events that its files have twice
/// under one id, and that are stored once. Returns the number of such events.
///
/// # Errors
/// A file cannot be read again.
pub fn without_duplicates(
    differences: &mut Vec<Difference>,
    files: &[SourceFile],
    plan: &Plan,
) -> Result<u64, FileError> {
    let wanted: HashSet<_> = differences
        .iter()
        .filter(|it| it.is_missing())
        .map(|it| (it.day, it.event.clone()))
        .collect();
    if wanted.is_empty() {
        return Ok(0);
    }
    let mut seen: HashSet<Uuid> = HashSet::new();
    let mut duplicates: BTreeMap<(Day, String), u64> = BTreeMap::new();
    // Standard input and pipes cannot be read again.
    for file in files.iter().filter(|file| file.known_bytes().is_some()) {
        let prefix = BodyPrefix::new("reconcile");
        let counter = std::sync::Arc::default();
        let mut reader = ChunkReader::open(file, plan, &prefix, Position::default(), &counter)?;
        while let Some(chunk) = reader.next_chunk()? {
            for request in &chunk.requests {
                for sent in &request.events {
                    let Some(day) = sent.counted else {
                        continue;
                    };
                    let key = (day, name_of(request.name(sent)));
                    if wanted.contains(&key)
                        && uuid_of(request.event(sent)).is_some_and(|uuid| !seen.insert(uuid))
                    {
                        *duplicates.entry(key).or_default() += 1;
                    }
                }
            }
        }
    }
    let found = duplicates.values().sum();
    differences.retain(|it| {
        let duplicates = duplicates.get(&(it.day, it.event.clone()));
        !it.is_missing() || it.accepted - it.stored != duplicates.copied().unwrap_or_default()
    });
    Ok(found)
}

fn uuid_of(json: &[u8]) -> Option<Uuid> {
    let mut uuid = None;
    for member in Members::new(json, 0)? {
        if json.get(member.name_start..member.name_end) == Some(b"uuid") {
            let inside = json.get(member.value_start + 1..member.value_end.saturating_sub(1));
            uuid = inside.and_then(|text| Uuid::try_parse_ascii(text).ok());
        }
    }
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(Day, &str, u64)]) -> EventCounts {
        let mut counts = EventCounts::default();
        for (day, event, count) in list {
            counts.add(*day, event, *count);
        }
        counts
    }

    #[test]
    fn each_day_and_event_is_compared_separately() {
        let sum = ImportedChunk {
            made: counts(&[(1, "a", 3), (1, "b", 2), (2, "a", 1)]),
            accepted: counts(&[(1, "a", 3), (1, "b", 1), (2, "a", 1)]),
            generated: counts(&[(1, "$identify", 3)]),
            ..ImportedChunk::default()
        };
        let right = counts(&[(1, "a", 3), (1, "b", 1), (2, "a", 1), (1, "$identify", 2)]);
        assert_eq!(differences(&sum, &right), []);
        let wrong = counts(&[(1, "a", 2), (1, "b", 1), (3, "x", 1), (1, "$identify", 4)]);
        let found: Vec<_> = differences(&sum, &wrong)
            .into_iter()
            .map(|it| (it.day, it.event, it.source, it.accepted, it.stored))
            .collect();
        let expected = [
            (1, "$identify".to_owned(), 0, 0, 4),
            (1, "a".to_owned(), 3, 3, 2),
            (2, "a".to_owned(), 1, 1, 0),
            (3, "x".to_owned(), 0, 0, 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn duplicates_in_the_source_are_no_difference() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ndjson");
        let line = |uuid: &str| {
            format!(r#"{{"event":"a","timestamp":"1970-01-02","uuid":"{uuid}","distinct_id":"x"}}"#)
        };
        let one = line("0191f99b-b499-70c4-9505-90a47f19f05a");
        let other = line("0191f99b-b499-70c4-9505-90a47f19f05b");
        std::fs::write(&path, [one.clone(), other, one].join("\n")).unwrap();
        let files = crate::files::find(&[path.to_string_lossy().into_owned()]).unwrap();
        let difference = |stored| Difference {
            day: 1,
            event: "a".to_owned(),
            source: 3,
            accepted: 3,
            stored,
        };
        for (stored, left) in [(2, 0), (1, 1), (4, 1)] {
            let mut all = vec![difference(stored)];
            without_duplicates(&mut all, &files, &Plan::default()).unwrap();
            assert_eq!(all.len(), left, "{stored}");
        }
    }
}
