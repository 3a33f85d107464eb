//! The JSON of refused events, a little of it at a time: that of one may have 100 MB, as it was kept whole before.

use super::ask;
use crate::config::Config;
use millrace_clickhouse::RejectedEvent;

/// Bytes that are read of an event's JSON; no larger one is sent again, as no request takes it.
pub(super) const RAW_BYTES_MAX: u64 = 32 << 20;
/// Events whose sizes are asked for at once.
pub(super) const PIECE_EVENTS_MAX: usize = 100;
/// Bytes of the JSON that is read at once; a larger one is read alone.
const GROUP_BYTES_MAX: u64 = 4 << 20;

/// Events whose JSON is read at once.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) events: Vec<&'a RejectedEvent>,
    /// Of all of them; above [`RAW_BYTES_MAX`] it is one.
    pub(super) bytes: u64,
}

/// Puts at most [`PIECE_EVENTS_MAX`] events into groups, in their order.
///
/// # Errors
/// When ClickHouse cannot be asked.
pub(super) fn groups<'a>(
    config: &Config,
    events: &[&'a RejectedEvent],
) -> anyhow::Result<Vec<Group<'a>>> {
    let sizes = ask(config, async |clickhouse| {
        clickhouse.rejected_sizes(events).await
    })?;
    Ok(grouped(events, &sizes))
}

fn grouped<'a>(events: &[&'a RejectedEvent], sizes: &[u64]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (event, bytes) in events.iter().zip(sizes) {
        match groups.last_mut() {
            Some(last) if last.bytes.saturating_add(*bytes) <= GROUP_BYTES_MAX => {
                last.events.push(event);
                last.bytes += bytes;
            }
            _ => groups.push(Group {
                events: vec![event],
                bytes: *bytes,
            }),
        }
    }
    groups
}

/// The JSON of these events, the first [`RAW_BYTES_MAX`] bytes of each.
///
/// # Errors
/// When ClickHouse cannot be asked.
pub(super) fn read(config: &Config, events: &[&RejectedEvent]) -> anyhow::Result<Vec<String>> {
    ask(config, async |clickhouse| {
        clickhouse.rejected_raws(events, RAW_BYTES_MAX).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_together_up_to_a_bound_and_a_larger_one_alone() {
        let event = RejectedEvent {
            team_id: 1,
            received_at: 0,
            request_id: String::new(),
            index: 0,
            code: String::new(),
            attr: String::new(),
            detail: String::new(),
            historical_migration: false,
            resent_at: 0,
        };
        let (bound, large) = (GROUP_BYTES_MAX, RAW_BYTES_MAX + 1);
        let table: [(&[u64], &[usize]); 4] = [
            (&[], &[]),
            (&[1, 2, bound - 3, 1], &[3, 1]),
            (&[1, large, large, 1, 1], &[1, 1, 1, 2]),
            (&[bound, 0, 1], &[2, 1]),
        ];
        for (sizes, expected) in table {
            let groups = grouped(&vec![&event; sizes.len()], sizes);
            let found: Vec<_> = groups.iter().map(|group| group.events.len()).collect();
            assert_eq!(found, expected, "{sizes:?}");
        }
    }
}
