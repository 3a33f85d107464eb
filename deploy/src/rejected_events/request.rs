//! One request of a resend, and what becomes of it.
//!
//! A request is in the catalog from before it is sent until its accepted events are recorded as
//! sent, and a project has one there at a time. So whoever resends, in whatever process, first
//! settles what another one left: it sends that request again, unchanged. And whoever has begun a
//! request looks for events that others have sent before, and leaves them out: an event is stored
//! under one correction only.

use super::client::{ResendOutcome, SendMode};
use super::corrected::CorrectedEvent;
use super::error::{ResendError, no_key};
use super::pending::{PendingRequest, text_of};
use super::reporter::{EventOutcome, Reporter};
use super::resender::{Resender, Target};
use anyhow::anyhow;
use millrace_catalog::RejectedEventResend;
use millrace_clickhouse::RejectedEvent;
use millrace_import::count::counted;
use millrace_organizations::{BegunResend, NewResend, Projects, RejectedEventResends};
use millrace_rows::{Clock, ProjectId, SystemClock};
use uuid::Uuid;

/// Requests of others that are settled before one's own begins.
const SETTLED_MAX: usize = 5;
/// Time, in microseconds, after which a request is given up whose outcome stays unknown: the server
/// has long forgotten it, so that sending it once more would prove nothing.
const GIVEN_UP_MICROS: i64 = 3_600 * 1_000_000;

impl Resender<'_> {
    /// Settles the requests that earlier resends left, of all projects.
    ///
    /// # Errors
    /// When no response says whether the events of one are stored; it stays under way.
    pub async fn settle_all(&self, reporter: &mut impl Reporter) -> Result<(), ResendError> {
        for row in self.resends().list_all().await? {
            self.settle(&row, reporter).await?;
        }
        Ok(())
    }

    /// Sends a request, which is in the catalog until its outcome is known and recorded. Events are
    /// taken out of it that others have sent.
    pub(super) async fn send_request(
        &self,
        target: &Target,
        request: &mut Vec<CorrectedEvent<'_>>,
        reporter: &mut impl Reporter,
    ) -> Result<ResendOutcome, ResendError> {
        let historical_migration = target.historical_migration;
        if self.options.is_dry_run {
            let mode = SendMode::DryRun;
            let sent = self
                .client
                .send(mode, &target.key, historical_migration, request);
            return match sent.await? {
                ResendOutcome::InDoubt(error) => Err(ResendError::Server(error)),
                decided => Ok(decided),
            };
        }
        let id = loop {
            let id = self.begin(target, request, reporter).await?;
            if !self.leave_out_sent(target, request, reporter).await? {
                break id;
            }
            self.resends().end(id).await?;
            if request.is_empty() {
                return Ok(ResendOutcome::Accepted);
            }
        };
        let mode = SendMode::Store;
        let sent = self
            .client
            .send(mode, &target.key, historical_migration, request);
        let outcome = sent.await;
        match &outcome {
            Ok(ResendOutcome::InDoubt(_)) => return Ok(outcome?),
            Ok(ResendOutcome::Accepted) => {
                let accepted: Vec<_> = request.iter().map(|it| it.event.clone()).collect();
                self.record(&accepted).await?;
            }
            _ => {}
        }
        self.resends().end(id).await?;
        Ok(outcome?)
    }

    /// Begins a request; settles those of others that are under way.
    async fn begin(
        &self,
        target: &Target,
        request: &[CorrectedEvent<'_>],
        reporter: &mut impl Reporter,
    ) -> Result<Uuid, ResendError> {
        let new = NewResend {
            project_id: ProjectId(target.project_id),
            historical_migration: target.historical_migration,
            request: text_of(request)?,
            events: request.len(),
        };
        for _ in 0..SETTLED_MAX {
            match self.resends().begin(self.actor, new.clone()).await? {
                BegunResend::New(id) => return Ok(id),
                BegunResend::Pending(row) => self.settle(&row, reporter).await?,
            }
        }
        let error = "others resend events of this project at the same time; try again";
        Err(ResendError::Server(anyhow!(error)))
    }

    /// Takes events out of a request that were sent before it began; returns true if there were
    /// any. From its beginning on nobody else sends events of its project.
    async fn leave_out_sent(
        &self,
        target: &Target,
        request: &mut Vec<CorrectedEvent<'_>>,
        reporter: &mut impl Reporter,
    ) -> Result<bool, ResendError> {
        if self.options.repeats {
            return Ok(false);
        }
        let events: Vec<&RejectedEvent> = request.iter().map(|it| it.event).collect();
        let are_sent = self.clickhouse.are_resent(target.project_id, &events);
        let mut are_sent = are_sent.await?.into_iter();
        let count = request.len();
        request.retain(|it| {
            let is_sent = are_sent.next().unwrap_or(false);
            if is_sent {
                reporter.event(it.event, EventOutcome::AlreadySent);
            }
            !is_sent
        });
        Ok(request.len() < count)
    }

    /// Settles a request that another resend began: repeats it unchanged, and records the events
    /// that are stored.
    async fn settle(
        &self,
        row: &RejectedEventResend,
        reporter: &mut impl Reporter,
    ) -> Result<(), ResendError> {
        let pending = PendingRequest::read(row)?;
        let events: Vec<&RejectedEvent> = pending.events.iter().collect();
        let are_sent = self.clickhouse.are_resent(pending.project_id, &events);
        // Either all were recorded, or it was not sent: who begins one leaves such events out.
        if are_sent.await?.contains(&true) {
            return Ok(self.resends().end(pending.id).await?);
        }
        let outcome = match self.project_key(pending.project_id).await? {
            Some(key) => {
                let request = pending.corrected();
                let (mode, is_historical) = (SendMode::Store, pending.historical_migration);
                self.client.send(mode, &key, is_historical, &request).await
            }
            None => Ok(ResendOutcome::ProjectRejected(no_key(pending.project_id))),
        };
        let why = match outcome {
            Ok(ResendOutcome::Accepted) => {
                self.record(&pending.events).await?;
                self.resends().end(pending.id).await?;
                reporter.settled(pending.events.len());
                return Ok(());
            }
            // A rejected request stored nothing.
            Ok(ResendOutcome::EventsRejected(_) | ResendOutcome::RequestRejected(_)) => {
                return Ok(self.resends().end(pending.id).await?);
            }
            Ok(ResendOutcome::ProjectRejected(why)) => anyhow!(why),
            Ok(ResendOutcome::InDoubt(error)) | Err(error) => error,
        };
        let age_micros = self.catalog.now().0.saturating_sub(pending.began_at.0);
        if age_micros > GIVEN_UP_MICROS {
            let project_id = pending.project_id;
            tracing::warn!(
                project_id,
                "rejected events that were sent again may be stored, and count as not sent: {why:#}"
            );
            return Ok(self.resends().end(pending.id).await?);
        }
        let events = counted(pending.events.len() as u64, "event");
        Err(ResendError::Pending(events, why))
    }

    /// Records that events were accepted.
    async fn record(&self, events: &[RejectedEvent]) -> Result<(), ResendError> {
        let recorded = self.clickhouse.record_resent(events, SystemClock.now());
        recorded.await.map_err(|error| {
            let events = counted(events.len() as u64, "event");
            ResendError::Recording(events, error)
        })
    }

    /// Key of a project; `None` when it has none.
    pub(super) async fn project_key(&self, project_id: i64) -> Result<Option<String>, ResendError> {
        let project = Projects::new(self.catalog).get(ProjectId(project_id));
        Ok(project.await?.and_then(|project| project.api_token))
    }

    fn resends(&self) -> RejectedEventResends<'_> {
        RejectedEventResends::new(self.catalog)
    }
}
