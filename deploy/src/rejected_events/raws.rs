//! JSON of rejected events, read in bounded groups: a single event may have 100 MB, as earlier
//! versions kept it whole.

use millrace_clickhouse::{ClickHouse, QueryError, RejectedEvent};

/// Most bytes that are read of an event's JSON; a larger event is not sent again, as no request
/// takes it.
pub const RAW_BYTES_MAX: u64 = 32 << 20;
/// Events whose sizes are queried at once.
pub const PIECE_EVENTS_MAX: usize = 100;
/// Bytes of JSON that are read at once; a larger event is read alone.
pub const GROUP_BYTES_MAX: u64 = 4 << 20;

/// Events whose JSON is read at once.
#[derive(Debug)]
pub struct EventGroup<'a> {
    /// The events.
    pub events: Vec<&'a RejectedEvent>,
    /// Total size of their JSON; above [`GROUP_BYTES_MAX`] the group is one event.
    pub bytes: u64,
}

/// Puts at most [`PIECE_EVENTS_MAX`] events into groups, in their order.
///
/// # Errors
/// When ClickHouse cannot be asked.
pub async fn groups<'a>(
    clickhouse: &ClickHouse,
    events: &[&'a RejectedEvent],
) -> Result<Vec<EventGroup<'a>>, QueryError> {
    let sizes = clickhouse.rejected_sizes(events).await?;
    Ok(grouped(events, &sizes))
}

fn grouped<'a>(events: &[&'a RejectedEvent], sizes: &[u64]) -> Vec<EventGroup<'a>> {
    let mut groups: Vec<EventGroup<'_>> = Vec::new();
    for (event, bytes) in events.iter().zip(sizes) {
        match groups.last_mut() {
            Some(last) if last.bytes.saturating_add(*bytes) <= GROUP_BYTES_MAX => {
                last.events.push(event);
                last.bytes += bytes;
            }
            _ => groups.push(EventGroup {
                events: vec![event],
                bytes: *bytes,
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_grouped_up_to_a_size_and_a_larger_event_is_read_alone() {
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
