//! Rejected events without a ClickHouse: a hundred of each project, and failures by the code that
//! is asked for.

use async_trait::async_trait;
use millrace_admin::rejected_events::{
    RejectedEvent, RejectedEventText, RejectedEvents, RejectedFailure, RejectedGroup, RejectedId,
    RejectedSelection, Resend, ResendReport, ResentEvent, ResentOutcome,
};
use millrace_catalog::{Actor, Page, PageRequest, UtcTime};
use std::sync::Mutex;
use uuid::Uuid;

/// Events of a project.
const EVENTS: u32 = 100;
/// Code whose events take too long.
pub const SLOW: &str = "slow";
/// Code whose events cannot be read now.
pub const AWAY: &str = "away";
/// Code whose events nobody takes.
pub const REFUSED: &str = "refused";
/// Code whose events are in doubt.
pub const DOUBTFUL: &str = "doubtful";

/// Rejected events, with what was asked for.
#[derive(Debug, Default)]
pub struct FakeRejectedEvents {
    pub selections: Mutex<Vec<RejectedSelection>>,
    pub resends: Mutex<Vec<(Actor, Resend)>>,
}

/// Id of the newest event of a project.
pub fn rejected_event(project_id: i64) -> RejectedId {
    RejectedId {
        request_id: Uuid::from_u128(project_id.unsigned_abs().into()),
        index: 0,
    }
}

/// Event of a project; a third have another code, and the last was sent again.
fn event(project_id: i64, index: u32) -> RejectedEvent {
    let newest = rejected_event(project_id);
    let code = match index % 3 {
        0 => "missing_event",
        _ => "missing_distinct_id",
    };
    RejectedEvent {
        id: RejectedId { index, ..newest }.to_string(),
        request_id: newest.request_id.to_string(),
        index,
        received_at: UtcTime(1_700_000_000_000_000 - i64::from(index)),
        code: code.to_owned(),
        attr: (index > 0).then(|| format!("batch[{index}]")),
        detail: "Give the event a name.".to_owned(),
        historical_migration: false,
        resent_at: (index == EVENTS - 1).then_some(UtcTime(1_700_000_001_000_000)),
    }
}

fn failure(selection: &RejectedSelection) -> Result<(), RejectedFailure> {
    match selection.code.as_deref() {
        Some(SLOW) => Err(RejectedFailure::LimitExceeded),
        Some(AWAY) => Err(RejectedFailure::Unavailable),
        Some(REFUSED) => Err(RejectedFailure::Unsupported("No events here.".to_owned())),
        Some(DOUBTFUL) => Err(RejectedFailure::InDoubt),
        _ => Ok(()),
    }
}

/// Events that a selection by code selects.
fn selected(selection: &RejectedSelection) -> Vec<RejectedEvent> {
    let all = (0..EVENTS).map(|index| event(selection.project_id, index));
    let code = selection.code.as_deref();
    all.filter(|event| code.is_none_or(|code| event.code == code))
        .filter(|event| !selection.unsent || event.resent_at.is_none())
        .collect()
}

#[async_trait]
impl RejectedEvents for FakeRejectedEvents {
    async fn list(
        &self,
        selection: &RejectedSelection,
        page: PageRequest,
    ) -> Result<Page<RejectedEvent>, RejectedFailure> {
        failure(selection)?;
        self.selections.lock().unwrap().push(selection.clone());
        Ok(Page::of(selected(selection), page))
    }

    async fn get(
        &self,
        project_id: i64,
        id: RejectedId,
    ) -> Result<Option<RejectedEventText>, RejectedFailure> {
        let is_there = id.request_id == rejected_event(project_id).request_id;
        Ok((is_there && id.index < EVENTS).then(|| RejectedEventText {
            event: event(project_id, id.index),
            raw: "{}".to_owned(),
            raw_bytes: 2,
        }))
    }

    async fn groups(
        &self,
        selection: &RejectedSelection,
    ) -> Result<Vec<RejectedGroup>, RejectedFailure> {
        failure(selection)?;
        let events = selected(selection);
        let newest = rejected_event(selection.project_id).to_string();
        Ok(vec![RejectedGroup {
            code: "missing_event".to_owned(),
            events: events.len() as u64,
            unsent: 0,
            first_received_at: UtcTime(0),
            last_received_at: UtcTime(1),
            newest_id: newest,
            newest_detail: "Give the event a name.".to_owned(),
        }])
    }

    async fn resend(&self, actor: &Actor, resend: Resend) -> Result<ResendReport, RejectedFailure> {
        failure(&resend.selection)?;
        let events = selected(&resend.selection);
        let taken = events.iter().take(resend.limit as usize);
        let results: Vec<_> = taken
            .map(|event| ResentEvent {
                id: event.id.clone(),
                outcome: ResentOutcome::Accepted,
                detail: None,
                event: resend.is_dry_run.then(|| "{}".to_owned()),
            })
            .collect();
        let report = ResendReport {
            dry_run: resend.is_dry_run,
            selected: events.len() as u64,
            accepted: results.len() as u64,
            rejected: 0,
            not_tried: 0,
            stopped: None,
            results,
        };
        self.resends.lock().unwrap().push((actor.clone(), resend));
        Ok(report)
    }
}
