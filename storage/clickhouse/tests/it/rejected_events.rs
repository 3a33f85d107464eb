//! Rejected events with large JSON. The statements themselves limit their memory.

use crate::fixture::{Database, NOVEMBER};
use millrace_clickhouse::RejectedFilter;

/// Number of rows, and bytes of JSON of each.
const ROWS: u64 = 8;
const RAW_BYTES: u64 = 60_000_000;

/// A database with eight large events, and a thousand small ones behind them by index.
async fn filled(name: &str) -> Database {
    let database = Database::make(name).await;
    // One statement each: the engine of the tests has 2 GiB.
    let large = (0..ROWS).map(|row| (row, 1, "repeat(repeat('\u{e9}', 500), 60000)"));
    for (first, rows, raw) in large.chain([(ROWS, 1_000, "toString(number)")]) {
        database
            .execute(&format!(
                "INSERT INTO {name}.rejected_events \
                 SELECT 1, fromUnixTimestamp64Micro({NOVEMBER}, 'UTC'), concat('request', toString(number)), \
                 number, 'event_too_large', '', 'large', {raw}, false FROM numbers({first}, {rows})"
            ))
            .await;
    }
    database
}

/// Filter that selects all events.
fn all() -> RejectedFilter {
    RejectedFilter {
        rows_max: 2_000,
        ..RejectedFilter::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_events_are_listed_without_their_json() {
    let database = filled("rejected_large").await;
    let reading = &database.clickhouse;
    let unsent = RejectedFilter {
        unsent: true,
        ..all()
    };
    let of_project = RejectedFilter {
        project_id: Some(1),
        ..all()
    };
    let one = RejectedFilter {
        index: Some(3),
        ..all()
    };
    let every = ROWS + 1_000;
    for (filter, expected) in [
        (all(), every),
        (unsent, every),
        (of_project, every),
        (one, 1),
    ] {
        let events = reading.rejected(&filter).await.unwrap();
        assert_eq!(events.len() as u64, expected, "{filter:?}");
        assert_eq!(reading.rejected_count(&filter).await.unwrap(), expected);
        let counts = reading.rejected_counts(&filter).await.unwrap();
        let counts: Vec<_> = counts
            .iter()
            .map(|it| (it.team_id, it.code.as_str(), it.events))
            .collect();
        assert_eq!(counts, [(1, "event_too_large", expected)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_of_large_events_is_read_a_few_at_a_time() {
    let database = filled("rejected_raws").await;
    let reading = &database.clickhouse;
    let events = reading.rejected(&all()).await.unwrap();
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| event.index);
    for piece in events.chunks(100) {
        let sizes = reading.rejected_sizes(piece).await.unwrap();
        for (event, size) in piece.iter().zip(sizes) {
            let is_large = u64::from(event.index) < ROWS;
            let expected = if is_large {
                RAW_BYTES
            } else {
                event.index.to_string().len() as u64
            };
            assert_eq!(size, expected, "{}", event.index);
        }
    }
    let raws = reading.rejected_raws(&events[5..8], 1_001).await.unwrap();
    let start = format!("{}\u{fffd}", "\u{e9}".repeat(500));
    assert_eq!(raws, vec![start; 3]);
    let raws = reading.rejected_raws(&events[8..108], 1_001).await.unwrap();
    let expected: Vec<_> = (8..108).map(|index| index.to_string()).collect();
    assert_eq!(raws, expected);
    let raws = reading
        .rejected_raws(&events[2..3], RAW_BYTES)
        .await
        .unwrap();
    assert_eq!(raws[0].len() as u64, RAW_BYTES);
    let gone = millrace_clickhouse::RejectedEvent {
        index: 9_999,
        ..events[0].clone()
    };
    assert_eq!(reading.rejected_sizes(&[&gone]).await.unwrap(), [0]);
}
