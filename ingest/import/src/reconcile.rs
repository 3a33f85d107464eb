//! Source against accepted against stored, by day and event.

use crate::chunk::ChunkReader;
use crate::files::SourceFile;
use crate::journal::Passed;
use crate::plan::Plan;
use crate::request::Head;
use crate::tallier::name_of;
use crate::tally::{Day, Tally};
use millrace_sources::scan::Members;
use millrace_sources::{FileError, Position};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use uuid::Uuid;

/// One day and event whose counts are not as they should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The day in UTC.
    pub day: Day,
    /// The event's name.
    pub event: String,
    /// Events that the files have, of those that the mapping keeps.
    pub source: u64,
    /// Of these, events that the server accepted.
    pub accepted: u64,
    /// Events that are stored.
    pub stored: u64,
}

impl Difference {
    /// Whether events are missing, not too many.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.stored < self.accepted
    }
}

/// Compares what a journal says with what is stored. Generated events may be stored as often as they were sent or less, as
/// several records give the same.
#[must_use]
pub fn differences(sum: &Passed, stored: &Tally) -> Vec<Difference> {
    let tallies = [&sum.made, &sum.accepted, &sum.generated, stored];
    let keys: BTreeSet<_> = tallies
        .iter()
        .flat_map(|tally| tally.iter())
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

/// Leaves out the differences that come from the source: events that its files have twice under one id, and that are
/// stored once. Gives how many such events there are.
///
/// # Errors
/// When a file cannot be read again.
pub fn without_doubles(
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
    let mut doubles: BTreeMap<(Day, String), u64> = BTreeMap::new();
    // What is read once was read by the load.
    for file in files.iter().filter(|file| file.known_bytes().is_some()) {
        let head = Head::new("reconcile");
        let counter = std::sync::Arc::default();
        let mut reader = ChunkReader::open(file, plan, &head, Position::default(), &counter)?;
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
                        *doubles.entry(key).or_default() += 1;
                    }
                }
            }
        }
    }
    let found = doubles.values().sum();
    differences.retain(|it| {
        let doubles = doubles.get(&(it.day, it.event.clone()));
        !it.is_missing() || it.accepted - it.stored != doubles.copied().unwrap_or_default()
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

    fn tally(list: &[(Day, &str, u64)]) -> Tally {
        let mut tally = Tally::default();
        for (day, event, count) in list {
            tally.add(*day, event, *count);
        }
        tally
    }

    #[test]
    fn each_day_and_event_is_compared_by_itself() {
        let sum = Passed {
            made: tally(&[(1, "a", 3), (1, "b", 2), (2, "a", 1)]),
            accepted: tally(&[(1, "a", 3), (1, "b", 1), (2, "a", 1)]),
            generated: tally(&[(1, "$identify", 3)]),
            ..Passed::default()
        };
        let right = tally(&[(1, "a", 3), (1, "b", 1), (2, "a", 1), (1, "$identify", 2)]);
        assert_eq!(differences(&sum, &right), []);
        let wrong = tally(&[(1, "a", 2), (1, "b", 1), (3, "x", 1), (1, "$identify", 4)]);
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
    fn what_the_source_has_twice_is_no_difference() {
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
            without_doubles(&mut all, &files, &Plan::default()).unwrap();
            assert_eq!(all.len(), left, "{stored}");
        }
    }
}
