//! Numbers of events by project and time: counted, summed and read, however often.

use crate::fixture::{Database, NOVEMBER};
use millrace_clickhouse::{
    DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, StatsDetail, StatsGrouping, StatsKind,
    StatsProgress, StatsQuery, StatsRow,
};
use millrace_rows::Micros;
use std::ops::Range;

/// 2026-11-20T00:00:00Z, in seconds.
const DAY: i64 = NOVEMBER / 1_000_000;
const HOUR: i64 = HOUR_SECONDS as i64;
/// Time of counts; later ones are later by themselves.
const NOW: Micros = Micros(NOVEMBER + 90_000_000_000);
/// Length of the properties of each event.
const BYTES: u64 = 14;

/// A database with an event of project 7 in each second of two hours, of 150 names and two SDKs, a
/// tenth of them historical, one of project 8, and a rejected event in each minute.
async fn filled(name: &str) -> Database {
    let database = Database::make(name).await;
    let at = format!("fromUnixTimestamp64Micro({NOVEMBER} + toInt64(number) * STEP, 'UTC')");
    let events = |team_id: u32, rows: u32| {
        format!(
            "INSERT INTO {name}.events (uuid, event, properties, timestamp, team_id, distinct_id, created_at, \
             historical_migration) SELECT generateUUIDv4(), concat('e', toString(number % 150)), \
             if(number % 2 = 0, '{{\"$lib\":\"web\"}}', '{{\"$lib\":\"ios\"}}'), {at}, {team_id}, 'd', {at}, \
             number % 10 = 0 FROM numbers({rows})",
            at = at.replace("STEP", "1000000"),
        )
    };
    let rejected = format!(
        "INSERT INTO {name}.rejected_events SELECT 7, {at}, 'r', number, \
         if(number % 2 = 0, 'missing_event', 'missing_distinct_id'), '', '', '{{}}', false FROM numbers(120)",
        at = at.replace("STEP", "60000000"),
    );
    // The rows are older than minutes are kept.
    let kept = format!("ALTER TABLE {name}.project_stats REMOVE TTL");
    for sql in [kept, events(7, 7_200), events(8, 1), rejected] {
        database.execute(&sql).await;
    }
    database
}

/// Counts two hours of a kind by minutes.
async fn count(database: &Database, kind: StatsKind, detail: StatsDetail) {
    let two_hours = DAY..DAY + 2 * HOUR;
    let counted = database
        .clickhouse
        .count_stats(kind, &two_hours, MINUTE_SECONDS, detail, NOW);
    counted.await.unwrap();
}

/// Sums a time of a kind by longer steps.
async fn sum(database: &Database, kind: StatsKind, seconds: &Range<i64>, steps: (u32, u32)) {
    let summed = database.clickhouse.sum_stats(kind, seconds, steps, NOW);
    summed.await.unwrap();
}

/// Reads sums of project 7, of which all are counted up to a time.
async fn read(
    database: &Database,
    step_seconds: u32,
    grouping: StatsGrouping,
    counted: i64,
) -> Vec<StatsRow> {
    let query = StatsQuery {
        project_ids: vec![7],
        step_seconds,
        seconds: DAY..DAY + i64::from(DAY_SECONDS),
        grouping,
        progress: StatsProgress {
            since: DAY,
            accepted: counted,
            rejected: counted,
        },
        seconds_max: 20,
    };
    database.clickhouse.stats(&query).await.unwrap()
}

/// Sums of accepted, rejected and historical events, and of bytes.
fn totals(rows: &[StatsRow]) -> [u64; 4] {
    let sum = |of: fn(&StatsRow) -> u64| rows.iter().map(of).sum();
    [
        sum(|row| row.accepted),
        sum(|row| row.rejected),
        sum(|row| row.historical),
        sum(|row| row.bytes),
    ]
}

const ALL: [u64; 4] = [7_200, 120, 720, 7_200 * BYTES];

#[tokio::test(flavor = "multi_thread")]
async fn each_event_is_counted_once_by_minute_hour_and_day_however_often_it_is_counted() {
    let database = filled("stats_counted").await;
    let (two_hours, day) = (DAY..DAY + 2 * HOUR, DAY..DAY + i64::from(DAY_SECONDS));
    // A count with other names kept apart takes the place of an earlier one.
    for detail in [StatsDetail::Names, StatsDetail::Totals, StatsDetail::Names] {
        for kind in StatsKind::ALL {
            count(&database, kind, detail).await;
            let hours = (MINUTE_SECONDS, HOUR_SECONDS);
            sum(&database, kind, &two_hours, hours).await;
            let days = (HOUR_SECONDS, DAY_SECONDS);
            sum(&database, kind, &day, days).await;
        }
        let counted = DAY + 2 * HOUR;
        let none = StatsGrouping::None;
        for (step, rows, counted) in [
            (MINUTE_SECONDS, 120, counted),
            (HOUR_SECONDS, 2, counted),
            // Of a day that is not over, and of one that is.
            (DAY_SECONDS, 1, counted),
            (DAY_SECONDS, 1, day.end),
        ] {
            let found = read(&database, step, none, counted).await;
            assert_eq!(found.len(), rows, "{step} {detail:?}");
            assert_eq!(totals(&found), ALL, "{step} {detail:?}");
            assert_eq!(i64::from(found[0].at), DAY);
        }
        let half = read(&database, MINUTE_SECONDS, none, DAY + 1_800).await;
        assert_eq!(totals(&half), [1_800, 30, 180, 1_800 * BYTES]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_exact_up_to_their_number_and_the_rest_has_no_name() {
    let database = filled("stats_grouped").await;
    for kind in StatsKind::ALL {
        count(&database, kind, StatsDetail::Names).await;
        let hours = (MINUTE_SECONDS, HOUR_SECONDS);
        sum(&database, kind, &(DAY..DAY + 2 * HOUR), hours).await;
    }
    let read = async |grouping| read(&database, HOUR_SECONDS, grouping, DAY + 2 * HOUR).await;
    let named = |rows: &[StatsRow], name: &str| {
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| row.name == name)
            .cloned()
            .collect();
        totals(&rows)
    };
    let sdks = read(StatsGrouping::Sdk).await;
    assert_eq!(totals(&sdks)[..2], [7_200, 0], "accepted events alone");
    let events = read(StatsGrouping::Event).await;
    assert_eq!(events.len(), 2 * 21, "twenty names, and the rest");
    assert_eq!(totals(&events)[0], 7_200);
    assert!(named(&events, "")[0] > 0);
    let codes = read(StatsGrouping::Code).await;
    assert_eq!(totals(&codes)[..2], [0, 120]);
    assert_eq!(named(&codes, "missing_event")[1], 60);
    for grouping in [StatsGrouping::Project, StatsGrouping::EachProject] {
        let projects = read(grouping).await;
        assert_eq!(named(&projects, "7"), ALL);
        assert_eq!(projects.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_projects_come_first_and_all_others_are_one_row() {
    let database = filled("stats_largest").await;
    for kind in StatsKind::ALL {
        count(&database, kind, StatsDetail::Names).await;
    }
    let clickhouse = &database.clickhouse;
    let counted = |accepted: i64| StatsProgress {
        since: DAY,
        accepted,
        rejected: DAY + 600,
    };
    let largest = async |accepted: i64, projects_max: u32| {
        let progress = counted(accepted);
        let largest = clickhouse.largest_projects(&progress, 300, projects_max);
        let rows = largest.await.unwrap().into_iter();
        rows.map(|row| (row.project_id, row.accepted, row.rejected, row.bytes))
            .collect::<Vec<_>>()
    };
    let seventh = (7, 300, 5, 300 * BYTES);
    assert_eq!(
        largest(DAY + 300, 100).await,
        [seventh, (8, 1, 0, BYTES)],
        "the last five minutes of each kind"
    );
    assert_eq!(
        largest(DAY + 300, 1).await,
        [seventh, (0, 1, 0, BYTES)],
        "project 8 is not among the largest"
    );
    assert_eq!(
        largest(DAY + 600, 0).await,
        [(0, 300, 5, 300 * BYTES)],
        "project 8 has sent nothing of late"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_begins_and_goes_on_where_it_was() {
    let database = Database::make("stats_progress").await;
    let clickhouse = &database.clickhouse;
    assert_eq!(clickhouse.stats_progress().await.unwrap(), None);
    let begun = StatsProgress {
        since: DAY,
        accepted: DAY,
        rejected: DAY,
    };
    clickhouse.begin_stats(&begun).await.unwrap();
    assert_eq!(clickhouse.stats_progress().await.unwrap(), Some(begun));
    let until = DAY + 60;
    // Nothing takes back what is counted, not a process that is late.
    for (kind, at) in [
        (StatsKind::Accepted, until),
        (StatsKind::Rejected, until),
        (StatsKind::Rejected, DAY),
    ] {
        clickhouse.advance_stats(kind, at).await.unwrap();
    }
    database
        .execute("OPTIMIZE TABLE stats_progress.project_stats FINAL")
        .await;
    let expected = StatsProgress {
        since: DAY,
        accepted: until,
        rejected: until,
    };
    assert_eq!(clickhouse.stats_progress().await.unwrap(), Some(expected));
}
