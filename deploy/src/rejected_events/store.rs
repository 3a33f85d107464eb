//! Rejected events as the API's trait asks for them.
//!
//! Events are read as the server's own user, always of one project, and sent to the ingest listener
//! of the same data folder.

use super::client::{ResendClient, SendLimits};
use super::collected::{Collected, event_id};
use super::error::ResendError;
use super::fields::FieldPath;
use super::mapping::Mapping;
use super::raws::GROUP_BYTES_MAX;
use super::resender::{ResendOptions, Resender};
use crate::config::Config;
use crate::connect;
use async_trait::async_trait;
use millrace_admin::rejected_events::{
    RejectedEvent, RejectedEventText, RejectedEvents, RejectedFailure, RejectedGroup, RejectedId,
    RejectedSelection, Resend, ResendReport, SHOWN_BYTES_MAX,
};
use millrace_catalog::{Actor, Catalog, Page, PageRequest, UtcTime};
use millrace_clickhouse::{ClickHouse, QueryError, RejectedFilter};
use millrace_rows::{Micros, RareLog};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most seconds of a query: the API answers within thirty.
const QUERY_SECONDS_MAX: u32 = 20;
/// Groups of events, at most.
const GROUPS_MAX: u32 = 1_000;
/// Time after which a resend begins no further request.
const RESEND_TIME: Duration = Duration::from_secs(10);
/// Limits of a request: with its repetition it ends within the time of an answer.
const SEND_LIMITS: SendLimits = SendLimits {
    tries_max: 2,
    response_timeout: Duration::from_secs(7),
    pause_max: Duration::from_secs(1),
};
/// Codes of ClickHouse for limits of time and memory: `TIMEOUT_EXCEEDED`, `TOO_SLOW`,
/// `MEMORY_LIMIT_EXCEEDED`.
const LIMIT_CODES: [u32; 3] = [159, 160, 241];

/// Rejected events in the ClickHouse of a configuration.
pub struct RejectedEventStore {
    config: Config,
    catalog: Catalog,
    /// Client by the last known address, user and password: those of the embedded engine change.
    clickhouse: Mutex<Option<([String; 3], ClickHouse)>>,
    failures: RareLog,
}

impl RejectedEventStore {
    /// Rejected events by these settings, of projects of a catalog. Does not connect yet.
    #[must_use]
    pub fn new(config: &Config, catalog: Catalog) -> Self {
        Self {
            config: config.clone(),
            catalog,
            clickhouse: Mutex::default(),
            failures: RareLog::default(),
        }
    }

    fn clickhouse(&self) -> Result<ClickHouse, RejectedFailure> {
        let settings = connect::clickhouse_settings(&self.config);
        let settings = settings.map_err(|error| self.unavailable(&format!("{error:#}")))?;
        let login = [&settings.url, &settings.user, &settings.password].map(Clone::clone);
        let known = &self.clickhouse;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, clickhouse)) = known.as_ref()
            && *of == login
        {
            return Ok(clickhouse.clone());
        }
        let clickhouse = ClickHouse::new(&settings);
        *known = Some((login, clickhouse.clone()));
        Ok(clickhouse)
    }

    /// Logs a cause that the operator has to know, and clients are told nothing of.
    fn unavailable(&self, cause: &str) -> RejectedFailure {
        if self.failures.is_due(cause, Instant::now()) {
            tracing::warn!(cause, "rejected events cannot be read or sent again");
        }
        RejectedFailure::Unavailable
    }

    fn failed(&self, error: &QueryError) -> RejectedFailure {
        match error.code {
            Some(code) if LIMIT_CODES.contains(&code) => RejectedFailure::LimitExceeded,
            _ => self.unavailable(&error.cause()),
        }
    }

    /// Failure of a resend that has sent nothing.
    fn resend_failed(&self, error: ResendError) -> RejectedFailure {
        match error {
            ResendError::ClickHouse(error) | ResendError::Recording(_, error) => {
                self.failed(&error)
            }
            ResendError::Change(error) => RejectedFailure::Change(error),
            ResendError::Pending(..) | ResendError::InDoubt(_) => RejectedFailure::InDoubt,
            ResendError::Server(error) => self.unavailable(&format!("{error:#}")),
        }
    }

    /// Sends events; reports what became of them.
    async fn send(
        &self,
        clickhouse: &ClickHouse,
        actor: &Actor,
        resend: Resend,
    ) -> Result<ResendReport, RejectedFailure> {
        let credentials = connect::running_credentials(&self.config);
        let credentials = credentials.map_err(|error| self.unavailable(&format!("{error:#}")))?;
        if credentials.ingest_url.is_empty() {
            let reason = "The server of this API accepts no events; ask one that does.";
            return Err(RejectedFailure::Unsupported(reason.to_owned()));
        }
        let client = ResendClient::new(&self.config, &credentials.ingest_url, SEND_LIMITS);
        let client = client.map_err(|error| self.unavailable(&format!("{error:#}")))?;
        let filter = RejectedFilter {
            rows_max: resend.limit,
            ..filter(&resend.selection)
        };
        let selected = clickhouse.rejected_count(&filter).await;
        let selected = selected.map_err(|error| self.failed(&error))?;
        let events = clickhouse.rejected(&filter).await;
        let events = events.map_err(|error| self.failed(&error))?;
        let mut collected = Collected::new(resend.is_dry_run);
        let resender = Resender {
            clickhouse,
            catalog: &self.catalog,
            client: &client,
            actor,
            options: ResendOptions {
                raw_bytes_max: GROUP_BYTES_MAX,
                ends_at: Instant::now().checked_add(RESEND_TIME),
                repeats: !resend.selection.unsent,
                is_dry_run: resend.is_dry_run,
            },
            mapping: &mapping(resend),
        };
        let ended = resender.send_all(&events, &mut collected).await;
        let stopped = match ended {
            Ok(()) => None,
            Err(error) if collected.is_empty() => return Err(self.resend_failed(error)),
            Err(error) => {
                let stopped = reason(&error).to_owned();
                // Logs the cause.
                let _ = self.resend_failed(error);
                Some(stopped)
            }
        };
        Ok(collected.report(selected, events.len(), stopped))
    }
}

#[async_trait]
impl RejectedEvents for RejectedEventStore {
    async fn list(
        &self,
        selection: &RejectedSelection,
        page: PageRequest,
    ) -> Result<Page<RejectedEvent>, RejectedFailure> {
        let clickhouse = self.clickhouse()?;
        let filter = RejectedFilter {
            rows_max: u32::try_from(page.limit).unwrap_or(u32::MAX),
            rows_skipped: page.offset,
            ..filter(selection)
        };
        let count = clickhouse.rejected_count(&filter).await;
        let count = count.map_err(|error| self.failed(&error))?;
        let found = clickhouse.rejected(&filter).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let rows = found.iter().rev().map(shown_event).collect();
        Ok(Page { count, rows })
    }

    async fn get(
        &self,
        project_id: i64,
        id: RejectedId,
    ) -> Result<Option<RejectedEventText>, RejectedFailure> {
        let clickhouse = self.clickhouse()?;
        let filter = RejectedFilter {
            rows_max: 1,
            ..filter(&RejectedSelection {
                project_id,
                chosen: vec![id],
                ..RejectedSelection::default()
            })
        };
        let found = clickhouse.rejected(&filter).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let Some(event) = found.first() else {
            return Ok(None);
        };
        let sizes = clickhouse.rejected_sizes(&[event]).await;
        let sizes = sizes.map_err(|error| self.failed(&error))?;
        let raws = clickhouse.rejected_raws(&[event], SHOWN_BYTES_MAX).await;
        let raws = raws.map_err(|error| self.failed(&error))?;
        Ok(Some(RejectedEventText {
            event: shown_event(event),
            raw: raws.into_iter().next().unwrap_or_default(),
            raw_bytes: sizes.first().copied().unwrap_or_default(),
        }))
    }

    async fn groups(
        &self,
        selection: &RejectedSelection,
    ) -> Result<Vec<RejectedGroup>, RejectedFailure> {
        let clickhouse = self.clickhouse()?;
        let filter = RejectedFilter {
            rows_max: GROUPS_MAX,
            ..filter(selection)
        };
        let found = clickhouse.rejected_groups(&filter).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let shown = found.into_iter().map(|group| RejectedGroup {
            code: group.code,
            events: group.events,
            unsent: group.unsent,
            first_received_at: UtcTime(group.first_received_at),
            last_received_at: UtcTime(group.last_received_at),
            newest_id: event_id(&group.request_id, group.index),
            newest_detail: group.detail,
        });
        Ok(shown.collect())
    }

    async fn resend(&self, actor: &Actor, resend: Resend) -> Result<ResendReport, RejectedFailure> {
        let clickhouse = self.clickhouse()?;
        self.send(&clickhouse, actor, resend).await
    }
}

impl fmt::Debug for RejectedEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedEventStore").finish_non_exhaustive()
    }
}

/// Filter of a selection, of no rows yet.
fn filter(selection: &RejectedSelection) -> RejectedFilter {
    let chosen = selection.chosen.iter();
    RejectedFilter {
        project_id: Some(selection.project_id),
        code: selection.code.clone(),
        since: selection.after.map(|at| Micros(at.0)),
        until: selection.before.map(|at| Micros(at.0)),
        request_id: selection.request_id.map(|id| id.to_string()),
        chosen: chosen
            .map(|id| (id.request_id.to_string(), id.index))
            .collect(),
        unsent: selection.unsent,
        seconds_max: Some(QUERY_SECONDS_MAX),
        ..RejectedFilter::default()
    }
}

/// Changes of a resend.
fn mapping(resend: Resend) -> Mapping {
    let path = |name: &String| FieldPath::of(name);
    let rename = resend.rename.iter();
    let set = resend.set.into_iter();
    Mapping {
        rename: rename.map(|(from, to)| (path(from), path(to))).collect(),
        drop: resend.drop.iter().map(path).collect(),
        set: set.map(|(name, value)| (path(&name), value)).collect(),
    }
}

fn shown_event(event: &millrace_clickhouse::RejectedEvent) -> RejectedEvent {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    RejectedEvent {
        id: event_id(&event.request_id, event.index),
        request_id: event.request_id.clone(),
        index: event.index,
        received_at: UtcTime(event.received_at),
        code: event.code.clone(),
        attr: text(&event.attr),
        detail: event.detail.clone(),
        historical_migration: event.historical_migration,
        resent_at: (event.resent_at > 0).then_some(UtcTime(event.resent_at)),
    }
}

/// Reason why a resend ended early, for its author.
const fn reason(error: &ResendError) -> &'static str {
    match error {
        ResendError::ClickHouse(_) | ResendError::Server(_) => {
            "The server cannot go on right now; send the request again in a few seconds."
        }
        ResendError::Recording(..) | ResendError::InDoubt(_) | ResendError::Pending(..) => {
            "It is unknown whether the last events are stored; the next resend of the project finds out."
        }
        ResendError::Change(_) => "The catalog refuses a further request.",
    }
}
