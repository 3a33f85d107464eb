//! Sorts files by the time of their first events: requests of a month are then sent together,
//! whatever the files' names, and ClickHouse gets few and large parts.

use crate::files::SourceFile;
use crate::plan::Plan;
use millrace_rows::Micros;
use millrace_sources::{Events, Position};
use std::sync::Arc;

/// Most records that are searched for a time.
const RECORDS_MAX: usize = 100;

/// Sorts files by the time of the first event in each. Files without one, and those that can be
/// read only once, come last in their given order.
pub(super) fn by_time(
    mut files: Vec<(SourceFile, Position)>,
    plan: &Plan,
) -> Vec<(SourceFile, Position)> {
    if files.len() > 1 {
        files.sort_by_cached_key(|(file, _)| first_time(file, plan).map_or(i64::MAX, |at| at.0));
    }
    files
}

fn first_time(file: &SourceFile, plan: &Plan) -> Option<Micros> {
    let is_file = || file.path.metadata().is_ok_and(|it| it.is_file());
    if file.is_stdin() || !is_file() {
        return None;
    }
    let (format, input) = file.format(plan, &Arc::default()).ok()?;
    let mut framing = format
        .open(input, Position::default(), &plan.options)
        .ok()?;
    let mut mapping = format.mapping(&plan.options).ok()?;
    let mut events = Events::default();
    for _ in 0..RECORDS_MAX {
        let record = framing.next().ok()??;
        events.clear();
        if record.error.is_none() && mapping.map(record.raw, &mut events).is_ok() {
            let first = events.list().iter().find_map(|event| event.timestamp);
            if first.is_some() {
                return first;
            }
        }
    }
    None
}
