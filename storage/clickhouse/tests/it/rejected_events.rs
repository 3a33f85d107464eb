//! Rejected events: with large JSON, of which the statements themselves limit the memory; by pages,
//! codes and times; and those that were sent again.

use crate::fixture::{Database, NOVEMBER};
use millrace_clickhouse::{RejectedEvent, RejectedFilter};
use millrace_rows::Micros;

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
    let gone = RejectedEvent {
        index: 9_999,
        ..events[0].clone()
    };
    assert_eq!(reading.rejected_sizes(&[&gone]).await.unwrap(), [0]);
}

/// A database with thirty events of project 1, one a second, of which each third has another code,
/// and one of project 2.
async fn with_codes(name: &str) -> Database {
    let database = Database::make(name).await;
    for (team_id, rows) in [(1, 30), (2, 1)] {
        database
            .execute(&format!(
                "INSERT INTO {name}.rejected_events \
                 SELECT {team_id}, fromUnixTimestamp64Micro({NOVEMBER} + toInt64(number) * 1000000, 'UTC'), 'r', \
                 number, if(number % 3 = 0, 'missing_event', 'missing_distinct_id'), '', concat('detail ', \
                 toString(number)), '{{}}', false FROM numbers({rows})"
            ))
            .await;
    }
    database
}

fn of_project() -> RejectedFilter {
    RejectedFilter {
        project_id: Some(1),
        ..all()
    }
}

fn indexes(events: &[RejectedEvent]) -> Vec<u32> {
    events.iter().map(|event| event.index).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_selects_events_of_its_project_its_times_and_its_choice() {
    let database = with_codes("rejected_filtered").await;
    let at = |second: i64| Some(Micros(NOVEMBER + second * 1_000_000));
    let page = |skipped: u64, rows_max: u32| RejectedFilter {
        rows_skipped: skipped,
        rows_max,
        seconds_max: Some(25),
        ..of_project()
    };
    let unsent = |filter: RejectedFilter| RejectedFilter {
        unsent: true,
        ..filter
    };
    let between = RejectedFilter {
        since: at(3),
        until: at(6),
        ..of_project()
    };
    let chosen = RejectedFilter {
        chosen: vec![("r".to_owned(), 7), ("other".to_owned(), 8)],
        ..of_project()
    };
    let table = [
        (page(0, 2), vec![28, 29], 30),
        (page(28, 5), vec![0, 1], 30),
        (page(30, 5), vec![], 30),
        (unsent(page(1, 2)), vec![27, 28], 30),
        (between, vec![3, 4, 5], 3),
        (chosen, vec![7], 1),
    ];
    for (filter, expected, count) in table {
        let found = database.clickhouse.rejected(&filter).await.unwrap();
        assert_eq!(indexes(&found), expected, "{filter:?}");
        let counted = database.clickhouse.rejected_count(&filter).await.unwrap();
        assert_eq!(counted, count, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_count_events_of_each_code_and_those_that_were_not_sent_again() {
    let database = with_codes("rejected_grouped").await;
    let clickhouse = &database.clickhouse;
    let events = clickhouse.rejected(&of_project()).await.unwrap();
    let (sent, others) = events.split_at(2);
    clickhouse.record_resent(sent, Micros(5)).await.unwrap();
    // Its events are numbered alike.
    let of_another = RejectedEvent {
        team_id: 2,
        ..others[0].clone()
    };
    clickhouse
        .record_resent(&[of_another], Micros(5))
        .await
        .unwrap();
    let asked: Vec<&RejectedEvent> = events.iter().take(4).collect();
    assert_eq!(
        clickhouse.are_resent(1, &asked).await.unwrap(),
        [true, true, false, false]
    );
    assert!(clickhouse.are_resent(1, &[]).await.unwrap().is_empty());
    let groups = clickhouse.rejected_groups(&of_project()).await.unwrap();
    let shown: Vec<_> = groups
        .iter()
        .map(|it| {
            let times = [it.first_received_at, it.last_received_at].map(|at| at - NOVEMBER);
            (
                it.code.as_str(),
                it.events,
                it.unsent,
                times,
                it.index,
                it.detail.as_str(),
            )
        })
        .collect();
    let expected = [
        (
            "missing_distinct_id",
            20,
            19,
            [1_000_000, 29_000_000],
            29,
            "detail 29",
        ),
        ("missing_event", 10, 9, [0, 27_000_000], 27, "detail 27"),
    ];
    assert_eq!(shown, expected);
}
