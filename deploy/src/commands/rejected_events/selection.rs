//! Selection of rejected events, and what to say where it finds none.

use crate::commands::{Invocation, counted, table};
use crate::config::Config;
use crate::numbers::{count, positive, project};
use crate::rejected_events::time_text;
use crate::{connect, output};
use anyhow::Context;
use clap::Args;
use millrace_catalog::UtcTime;
use millrace_clickhouse::{ClickHouse, QueryError, RejectedCount, RejectedEvent, RejectedFilter};
use millrace_rows::Micros;

/// Message where there is nothing to list.
pub(super) const NO_EVENT: &str = "No event was refused.";

/// Projects and codes whose events are counted below a list, at most.
const COUNTS_MAX: u32 = 20;

/// Selection of rejected events.
#[derive(Args, Clone, Debug)]
pub struct EventSelection {
    /// Only events of this project
    #[arg(long, alias = "team-id", value_name = "N", value_parser = project::<i64>)]
    project_id: Option<i64>,
    /// Only events that were rejected with this code, such as missing_distinct_id
    #[arg(long)]
    code: Option<String>,
    /// Only events that were received since this time, as in 2026-11-20T00:00:00Z
    #[arg(long, value_parser = time_of)]
    since: Option<Micros>,
    /// Only events of this request (X-Request-Id of its response)
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only the event at this place in its batch, from 0
    #[arg(long, value_name = "N", value_parser = count::<u32>)]
    index: Option<u32>,
    /// Only events that were not sent again yet
    #[arg(long)]
    unsent: bool,
    /// Largest number of events; the newest are chosen
    #[arg(long = "limit", value_name = "N", default_value_t = 100, value_parser = positive::<u32>)]
    rows_max: u32,
}

impl EventSelection {
    /// Narrows the selection to events that were not sent again, or widens it to all.
    pub(super) fn with_unsent(&self, unsent: bool) -> Self {
        Self {
            unsent,
            ..self.clone()
        }
    }

    /// Filter of the selected events.
    pub(super) fn filter(&self) -> RejectedFilter {
        RejectedFilter {
            project_id: self.project_id,
            code: self.code.clone(),
            since: self.since,
            request_id: self.request_id.clone(),
            index: self.index,
            unsent: self.unsent,
            rows_max: self.rows_max,
            ..RejectedFilter::default()
        }
    }
}

/// Finds the selected events.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn find(
    config: &Config,
    selection: &EventSelection,
) -> anyhow::Result<Vec<RejectedEvent>> {
    ask(config, async |clickhouse| {
        clickhouse.rejected(&selection.filter()).await
    })
}

/// Counts all events that match, beyond the limit, too.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn matching(config: &Config, selection: &EventSelection) -> anyhow::Result<u64> {
    events_in(config, &selection.filter())
}

fn events_in(config: &Config, filter: &RejectedFilter) -> anyhow::Result<u64> {
    ask(config, async |clickhouse| {
        clickhouse.rejected_count(filter).await
    })
}

/// Asks ClickHouse, with advice on its errors.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn ask<T>(
    config: &Config,
    question: impl AsyncFnOnce(&ClickHouse) -> Result<T, QueryError>,
) -> anyhow::Result<T> {
    let clickhouse = connect::clickhouse(config)?;
    connect::block_on(async {
        question(&clickhouse)
            .await
            .map_err(|error| connect::explain(config, error))
            .context("cannot read rejected_events")
    })
}

/// Explains why no event was found, and how many there are.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn explain_none(
    config: &Config,
    selection: &EventSelection,
    invocation: &Invocation,
) -> anyhow::Result<String> {
    let all = events_in(config, &RejectedFilter::default())?;
    if all == 0 {
        return Ok(NO_EVENT.to_owned());
    }
    if selection.unsent {
        let filter = RejectedFilter {
            unsent: false,
            ..selection.filter()
        };
        let sent = events_in(config, &filter)?;
        if sent > 0 {
            let verb = if sent == 1 { "was" } else { "were" };
            return Ok(format!(
                "Nothing is left to send: {} {verb} sent again already. `rejected resend --all` sends such once more; list with:\n  {}",
                counted(sent, "refused event"),
                invocation.command("rejected list", &["unsent"])
            ));
        }
    }
    if let Some(index) = selection.index {
        let filter = RejectedFilter {
            index: None,
            ..selection.filter()
        };
        let others = events_in(config, &filter)?;
        if others > 0 {
            return Ok(format!(
                "No refused event has the index {index}. Without --index there {}; list with:\n  {}",
                there_are(others),
                invocation.command("rejected list", &["index"])
            ));
        }
    }
    Ok(format!(
        "No refused event matches. In all there {}; list with:\n  {}",
        there_are(all),
        invocation.command(
            "rejected list",
            &[
                "project_id",
                "code",
                "since",
                "request_id",
                "index",
                "unsent"
            ]
        )
    ))
}

fn there_are(count: u64) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{verb} {}", counted(count, "refused event"))
}

/// Prints a hint if the limit left some out.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn print_limit_hint(
    config: &Config,
    selection: &EventSelection,
    found: usize,
) -> anyhow::Result<()> {
    if found == 0 || (found as u64) < u64::from(selection.rows_max) {
        return Ok(());
    }
    let all = matching(config, selection)?;
    if all > found as u64 {
        output::print(&format!(
            "These are the newest of {}; --limit {all} shows all.",
            counted(all, "refused event")
        ));
        print_counts(config, selection)?;
    }
    Ok(())
}

/// Prints how many of the selected events each project has of each code: those of one that sends
/// many may be all that is listed.
fn print_counts(config: &Config, selection: &EventSelection) -> anyhow::Result<()> {
    let filter = RejectedFilter {
        rows_max: COUNTS_MAX,
        ..selection.filter()
    };
    let counts = ask(config, async |clickhouse| {
        clickhouse.rejected_counts(&filter).await
    })?;
    if counts.len() < 2 {
        return Ok(());
    }
    output::print("\nBy project and code, to narrow the list by --project-id and --code:");
    let row = |it: &RejectedCount| {
        [
            it.team_id.to_string(),
            it.code.clone(),
            it.events.to_string(),
        ]
    };
    let headings = ["PROJECT", "CODE", "EVENTS"];
    table::print(headings, counts.iter().map(row).collect(), NO_EVENT);
    Ok(())
}

/// Time at which an event was sent again and accepted, as text.
pub(super) fn sent_again(event: &RejectedEvent) -> Option<String> {
    (event.resent_at > 0).then(|| time_text(event.resent_at))
}

/// Parses a time of the command line.
fn time_of(text: &str) -> Result<Micros, String> {
    UtcTime::from_rfc3339(text)
        .map(|at| Micros(at.0))
        .ok_or_else(|| "give a time such as 2026-11-20T00:00:00Z".to_owned())
}
