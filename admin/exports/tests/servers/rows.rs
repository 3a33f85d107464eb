//! Rows as ClickHouse writes them, and runs.

use millrace_catalog::{ExportModel, ProjectId, UtcTime};
use millrace_exports::ExportError;
use millrace_exports::destination::{Delivered, Delivery, Destination};
use millrace_exports::window::{RunScope, Window, WindowBy};
use serde_json::{Value, json};
use uuid::Uuid;

/// Midnight of 2026-11-20, in microseconds.
const MIDNIGHT: i64 = 1_795_132_800_000_000;
const HOUR: i64 = 3_600_000_000;

/// Run over the hour of this number.
pub fn run(hour: i64) -> RunScope {
    RunScope {
        run_id: Uuid::from_u128(100 + u128::from(hour.unsigned_abs())),
        export_id: Uuid::from_u128(7),
        project_id: ProjectId(3),
        model: ExportModel::Events,
        window: Window {
            start: Some(UtcTime(MIDNIGHT + hour * HOUR)),
            end: UtcTime(MIDNIGHT + (hour + 1) * HOUR),
            by: WindowBy::Arrival,
        },
    }
}

/// Run of persons over the hour of this number.
pub fn run_of_persons(hour: i64) -> RunScope {
    RunScope {
        model: ExportModel::Persons,
        ..run(hour)
    }
}

/// Row of a person for a table, with the distinct id of this number and the versions of the id and
/// the person.
pub fn person(number: u64, versions: (i64, i64), properties: &Value) -> Value {
    json!({
        "team_id": 3,
        "distinct_id": format!("user {number}"),
        "person_id": Uuid::from_u128(number.into()).to_string(),
        "properties": properties,
        "person_distinct_id_version": versions.0,
        "person_version": versions.1,
        "created_at": "2026-11-20T14:00:00.000001Z",
    })
}

/// Row of an event for a table, by number.
pub fn row(number: u64) -> Value {
    json!({
        "uuid": Uuid::from_u128(number.into()).to_string(),
        "event": "page viewed",
        "properties": {"number": number, "text": "it's \"quoted\"\t\\ and\nbroken", "$ip": "8.8.8.8"},
        "elements": null,
        "set": {"plan": "free"},
        "set_once": null,
        "distinct_id": format!("user {number}"),
        "team_id": 3,
        "ip": "8.8.8.8",
        "site_url": null,
        "timestamp": "2026-11-20T14:00:00.000001Z",
    })
}

/// Row of an event for a table, with almost a megabyte in it.
pub fn fat_row(number: u64) -> Value {
    let mut row = row(number);
    row["site_url"] = json!("x".repeat(900_000));
    row
}

/// Row of an event for HTTP, by number.
pub fn event(number: u64) -> Value {
    json!({
        "uuid": Uuid::from_u128(number.into()).to_string(),
        "event": "page viewed",
        "distinct_id": format!("user {number}"),
        "properties": {"number": number},
        "timestamp": "2026-11-20T14:00:00.000001Z",
        "created_at": "2026-11-20T14:00:01.000001Z",
        "team_id": 3,
        "historical_migration": false,
    })
}

pub fn lines(rows: impl IntoIterator<Item = Value>) -> String {
    rows.into_iter().map(|row| format!("{row}\n")).collect()
}

/// Writes lines in odd pieces, without publishing them.
pub async fn written(
    destination: &dyn Destination,
    run: &RunScope,
    lines: &str,
) -> Result<Box<dyn Delivery>, ExportError> {
    let mut delivery = destination.begin(run, 1).await?;
    for piece in lines.as_bytes().chunks(997) {
        delivery.write(piece.to_vec().into()).await?;
    }
    delivery.end_part(lines.lines().count() as u64).await?;
    Ok(delivery)
}

/// Writes lines and publishes them.
pub async fn delivered(
    destination: &dyn Destination,
    run: &RunScope,
    lines: &str,
) -> Result<Delivered, ExportError> {
    written(destination, run, lines).await?.publish().await
}
