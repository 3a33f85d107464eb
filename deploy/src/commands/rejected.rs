//! `millrace rejected`: events that were refused. They are kept with the reason, so that they can
//! be mended and sent again.
//!
//! Sending again is safe to repeat: an event without an id gets one made from its request and
//! index, and one without a time gets the time it was received, so that the second try stores the
//! same row again.

use super::{counted, table};
use crate::config::Config;
use crate::open;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_clickhouse::{RejectedEvent, RejectedFilter};
use millrace_rows::{Clock, Micros, SystemClock, TeamId};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// What to do with refused events.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List refused events, oldest first
    List(Which),
    /// Show refused events with the JSON that was sent
    Show(Which),
    /// Send refused events again, mended by --set
    Resend {
        /// Which events
        #[command(flatten)]
        which: Which,
        /// Set a top-level field first, as in distinct_id=ada or timestamp=2026-01-31T12:00:00Z
        #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
        set: Vec<(String, Value)>,
    },
}

/// Which events.
#[derive(Args, Clone, Debug)]
pub struct Which {
    /// Of this project
    #[arg(long, value_name = "N")]
    team_id: Option<i64>,
    /// Refused with this code, such as missing_distinct_id
    #[arg(long)]
    code: Option<String>,
    /// Received since, as in 2026-11-20T00:00:00Z
    #[arg(long, value_parser = time_of)]
    since: Option<Micros>,
    /// Sent in this request (X-Request-Id of its answer)
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// At this place in its batch, from 0
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Only those that were not sent again yet
    #[arg(long)]
    unsent: bool,
    /// At most so many, the newest
    #[arg(long = "limit", value_name = "N", default_value_t = 100)]
    rows_max: u32,
}

/// Runs the command.
///
/// # Errors
/// When ClickHouse, the catalog or the server cannot be reached.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(which) => list(&find(config, which)?),
        Command::Show(which) => show(&find(config, which)?),
        Command::Resend { which, set } => return resend(config, &find(config, which)?, set),
    }
    Ok(())
}

fn find(config: &Config, which: &Which) -> anyhow::Result<Vec<RejectedEvent>> {
    let filter = RejectedFilter {
        team_id: which.team_id,
        code: which.code.clone(),
        since: which.since,
        request_id: which.request_id.clone(),
        index: which.index,
        unsent: which.unsent,
        rows_max: which.rows_max,
    };
    let clickhouse = open::clickhouse(config)?;
    open::block_on(async {
        let found = clickhouse.rejected(&filter).await;
        found
            .map_err(|error| open::explained(config, error))
            .context("cannot read rejected_events")
    })
}

fn list(events: &[RejectedEvent]) {
    let rows = events.iter().map(|event| {
        [
            time_text(event.received_at),
            event.team_id.to_string(),
            event.request_id.clone(),
            event.index.to_string(),
            event.code.clone(),
            event.attr.clone(),
            sent_again(event).unwrap_or_else(|| "no".to_owned()),
        ]
    });
    let headings = [
        "RECEIVED",
        "TEAM",
        "REQUEST",
        "INDEX",
        "CODE",
        "WHERE",
        "SENT AGAIN",
    ];
    table::print(headings, rows.collect(), "No event was refused.");
}

/// When an event was sent again and accepted.
fn sent_again(event: &RejectedEvent) -> Option<String> {
    (event.resent_at > 0).then(|| time_text(event.resent_at))
}

fn show(events: &[RejectedEvent]) {
    for event in events {
        crate::print(&format!(
            "{} {} of request {}, team {}\n{}: {}\n{}{}\n",
            time_text(event.received_at),
            event.attr,
            event.request_id,
            event.team_id,
            event.code,
            event.detail,
            sent_again(event).map_or_else(String::new, |at| format!(
                "Sent again {at}, and accepted.\n"
            )),
            event.raw
        ));
    }
}

fn resend(
    config: &Config,
    events: &[RejectedEvent],
    set: &[(String, Value)],
) -> anyhow::Result<()> {
    let mut accepted = Vec::new();
    let sent = resend_each(config, events, set, &mut accepted);
    // What was accepted before something went wrong was sent as well.
    record(config, &accepted)?;
    let refused = sent?;
    crate::print(&format!(
        "{} accepted, {refused} refused again",
        accepted.len()
    ));
    if refused > 0 {
        bail!(
            "refused again: {}; mend what is wrong with --set",
            counted(refused, "event")
        );
    }
    Ok(())
}

/// Sends events again one by one; gives how many were refused.
fn resend_each(
    config: &Config,
    events: &[RejectedEvent],
    set: &[(String, Value)],
    accepted: &mut Vec<RejectedEvent>,
) -> anyhow::Result<u64> {
    let url = format!("{}/batch/", open::running(config)?.ingest_url);
    let mut refused = 0;
    for event in events {
        let key = project_key(config, event.team_id)?;
        let body = json!({
            "api_key": key,
            "historical_migration": event.historical_migration,
            "batch": [mended(event, set)?],
        });
        let answer = post(&url, &body)?;
        if answer.get("code").is_some() {
            refused += 1;
            let detail = answer.get("detail").and_then(Value::as_str);
            crate::print(&format!(
                "{} {}: {}",
                event.request_id,
                event.index,
                detail.unwrap_or_default()
            ));
        } else {
            accepted.push(event.clone());
        }
    }
    Ok(refused)
}

fn record(config: &Config, accepted: &[RejectedEvent]) -> anyhow::Result<()> {
    if accepted.is_empty() {
        return Ok(());
    }
    let clickhouse = open::clickhouse(config)?;
    open::block_on(async {
        let recorded = clickhouse.record_resent(accepted, SystemClock.now()).await;
        recorded.context(
            "they were accepted, but that cannot be recorded; sending them again does no harm",
        )
    })
}

/// The event as it is to be sent: parts set by the operator, an id and a time of its own.
fn mended(event: &RejectedEvent, set: &[(String, Value)]) -> anyhow::Result<Map<String, Value>> {
    let place = || format!("event {} of request {}", event.index, event.request_id);
    let mut fields: Map<String, Value> = serde_json::from_str(&event.raw)
        .with_context(|| format!("{} is not a JSON object and cannot be sent again", place()))?;
    for (name, value) in set {
        fields.insert(name.clone(), value.clone());
    }
    let absent =
        |fields: &Map<String, Value>, name: &str| fields.get(name).is_none_or(Value::is_null);
    if absent(&fields, "uuid") {
        let name = format!("{}/{}", event.request_id, event.index);
        let uuid = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
        fields.insert("uuid".to_owned(), json!(uuid));
    }
    if absent(&fields, "timestamp") {
        fields.insert("timestamp".to_owned(), json!(time_text(event.received_at)));
    }
    Ok(fields)
}

fn project_key(config: &Config, team_id: i64) -> anyhow::Result<String> {
    let project = open::on_catalog(config, async |catalog| {
        Ok(catalog.project(TeamId(team_id)).await?)
    })?;
    project
        .and_then(|project| project.api_token)
        .with_context(|| format!("project {team_id} has no key; `millrace keys create --team-id {team_id}` gives it one"))
}

fn post(url: &str, body: &Value) -> anyhow::Result<Value> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let mut answer = agent
        .post(url)
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .with_context(|| format!("cannot reach {url}"))?;
    let text = answer
        .body_mut()
        .read_to_string()
        .context("the answer cannot be read")?;
    serde_json::from_str(&text)
        .with_context(|| format!("{url} answered {}: {text}", answer.status()))
}

fn time_text(micros: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| micros.to_string())
}

fn time_of(text: &str) -> Result<Micros, String> {
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "give a time such as 2026-11-20T00:00:00Z".to_owned())?;
    Ok(Micros(
        i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX),
    ))
}

/// `FIELD=VALUE`; a value that is JSON is taken as JSON, anything else as text.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (field, value) = text.split_once('=').ok_or("give FIELD=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((field.to_owned(), value))
}
