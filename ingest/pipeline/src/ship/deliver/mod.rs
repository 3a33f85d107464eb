//! One insert, until it is known what became of it.
//!
//! An insert whose answer was lost is *in doubt*. What settles it:
//!
//! - The same bytes under the same token are stored once whatever became of the first try, if the server
//!   remembers the token.
//! - The server restarted: wait until no insert with the token runs, then look for the rows. One found means that
//!   all are there; none found, that the token may be spent, so they go out under the next attempt.
//! - It did not: look likewise before each try, as nobody knows for how long we were away, or cut off, and a
//!   server remembers the last 10 000 tokens of a table, whoever sent them. None found, the token holds.
//!
//! What waited or was under way in the log when we started may be there in part, if the folder is a copy of one
//! that went on. Its rows are all looked for, and by halves if some are found.
//!
//! Rows of a table that this version does not know cannot be looked for. If success is answered of them again and
//! again that is not proven to be ClickHouse's, while questions are answered, they are set aside: whatever
//! stands before ClickHouse will go on so.
//!
//! A success under a token that was in doubt is not believed either: on a plain MergeTree the
//! token may have been recorded by a try that failed before its part got a name. The rows are
//! looked for. (Replicated tables record token and part in one step, and are believed.)

#[cfg(test)]
mod tests;

use crate::ship::pace::Pace;
use crate::ship::plan::UnitId;
use crate::ship::proof::{Answers, Says, Stores};
use crate::ship::retries::{Failures, Retries, Standing};
use crate::ship::sink::Sink;
use crate::ship::sought::{Presence, Sought};
use metrics::counter;
use millrace_clickhouse::{Body, InsertError, InsertOutcome, QueryError, QueryErrorKind};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_rows::{Month, Table};
use uuid::Uuid;

/// One insert to deliver.
#[derive(Debug)]
pub struct Delivery<'a, B> {
    pub id: UnitId,
    pub retries: &'a Retries,
    /// `live` or `historical`, for metrics.
    pub lane: &'static str,
    /// Under which name we ask for the server's run.
    pub scope: &'a str,
    pub insert_target: &'a str,
    /// `None` for a table that this version does not know: then its rows cannot be looked for,
    /// and the token alone has to do.
    pub table: Option<Table>,
    pub month: Month,
    pub token: &'a str,
    pub sought: Sought,
    pub body: &'a B,
    /// The server's run when the insert was recorded.
    pub run: Option<Uuid>,
    pub in_doubt: bool,
    pub answers: Answers,
    /// Inserts that were stored in the meantime.
    pub stores: &'a Stores,
    /// Whether it was given back as [`Settled::Unproven`] before.
    pub standing: Standing,
}

/// What became of an insert.
#[derive(Debug)]
pub enum Settled {
    /// The rows are there.
    Stored,
    /// The rows are not there, and the token may be spent.
    Absent,
    /// Some of the rows are there, and others are not.
    Parted,
    /// Nothing was sent that could have been stored, and the server restarted: record its new run
    /// before sending.
    Restarted,
    /// The rows are not there: the server cannot read them.
    Refused(InsertError),
    /// Nobody can say whether the rows are there, and trying again does not help.
    Unknowable(InsertError),
    /// The rows are not there, and it is open whether they or the server are to blame.
    Unproven(InsertError),
    /// The rows can no longer be had, and no earlier try is known to have stored them.
    Lost(String),
}

/// Why a step did not settle the insert; another follows after a pause.
enum Trouble {
    Insert(InsertError),
    Query(QueryError),
    StillRunning,
}

impl From<QueryError> for Trouble {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl Trouble {
    /// Tells that nobody could be reached, or that something was only asked: trying again soon costs
    /// little. An insert that was sent, and refused by a gateway or cut off, would be sent whole again.
    const fn is_cheap(&self) -> bool {
        match self {
            Self::Insert(_) => self.is_away(),
            Self::Query(_) | Self::StillRunning => true,
        }
    }

    /// Tells that nobody could be reached, so that others fare no better.
    const fn is_away(&self) -> bool {
        match self {
            Self::Insert(error) => {
                matches!(error.outcome, InsertOutcome::NotStored) && error.code.is_none()
            }
            Self::Query(error) => {
                matches!(
                    error.kind,
                    QueryErrorKind::NoConnection | QueryErrorKind::Tls(_)
                )
            }
            Self::StillRunning => false,
        }
    }
}

impl<B: Body> Delivery<'_, B> {
    /// Tries until the outcome is known, for as long as that takes.
    pub async fn settle<K: Sink>(mut self, sink: &K) -> Settled {
        let mut pace = match self.standing {
            Standing::Fresh | Standing::Last => Pace::new(),
            Standing::Kept => Pace::patient(),
        };
        let mut failures = Failures::of(self.standing);
        let mut is_first = true;
        loop {
            let place = self.retries.place(&failures).await;
            let settled = self.step(sink, is_first).await;
            drop(place);
            match settled {
                Ok(settled) => return settled,
                Err(trouble) => {
                    let is_away = trouble.is_away();
                    self.retries.failed(self.id, &mut failures, is_away).await;
                    let failed = pace.failed(trouble.is_cheap());
                    self.report(sink, &trouble, failed.is_said).await;
                    tokio::time::sleep(failed.pause).await;
                }
            }
            is_first = false;
        }
    }

    async fn step<K: Sink>(&mut self, sink: &K, is_first: bool) -> Result<Settled, Trouble> {
        let is_restarted = (self.in_doubt || !is_first)
            && !sink.tokens_are_atomic()
            && Some(sink.server_run(self.scope).await?) != self.run;
        if is_restarted && !self.in_doubt {
            return Ok(Settled::Restarted);
        }
        // An unknown table cannot be asked about: its token has to do.
        if let Some(table) = self.table
            && self.in_doubt
            && let Some(settled) = self.look(sink, table, is_restarted).await?
        {
            return Ok(settled);
        }
        pass(FailPoint::InsertDue);
        let stores = self.stores.of(self.insert_target);
        let sent = sink.insert(self.insert_target, self.token, self.body).await;
        if sent.is_ok() {
            pass(FailPoint::InsertAnswered);
        }
        match sent {
            Ok(()) if self.in_doubt && !sink.tokens_are_atomic() => {
                let is_there = self.is_present(sink).await?.unwrap_or(true);
                Ok(if is_there {
                    Settled::Stored
                } else {
                    Settled::Absent
                })
            }
            Ok(()) => Ok(Settled::Stored),
            // Whoever says so may be a gateway; the rows say what is true.
            Err(error) if error.outcome == InsertOutcome::Unproven => {
                self.in_doubt = true;
                match self.is_present(sink).await? {
                    Some(true) => Ok(Settled::Stored),
                    Some(false) => Err(Trouble::Insert(error)),
                    None => self.give_up(sink, error).await,
                }
            }
            Err(error) if error.outcome == InsertOutcome::Lost => self.lost(sink, error).await,
            Err(error) if error.outcome == InsertOutcome::BadData => {
                // A view may refuse what the table has already taken.
                let is_there = self.is_present(sink).await?.unwrap_or(false);
                Ok(if is_there {
                    Settled::Stored
                } else {
                    Settled::Refused(error)
                })
            }
            Err(error) => {
                self.in_doubt |= error.outcome == InsertOutcome::Unknown;
                match self.answers.take(&error, stores) {
                    Says::Rows => self.give_in(sink, error, Settled::Refused).await,
                    Says::Either if self.standing != Standing::Last => {
                        self.give_in(sink, error, Settled::Unproven).await
                    }
                    Says::Either | Says::Nothing => Err(Trouble::Insert(error)),
                }
            }
        }
    }

    /// Takes what is answered again and again for a refusal, unless the rows are there or on their way.
    async fn give_in<K: Sink>(
        &self,
        sink: &K,
        error: InsertError,
        settled: fn(InsertError) -> Settled,
    ) -> Result<Settled, Trouble> {
        if sink.insert_is_running(self.token).await? {
            return Err(Trouble::StillRunning);
        }
        match self.is_present(sink).await? {
            Some(true) => Ok(Settled::Stored),
            Some(false) => Ok(settled(error)),
            None => Err(Trouble::Insert(error)),
        }
    }

    /// Gives up rows that cannot be looked for and whose success nobody proves, if ClickHouse is there: what
    /// answers while it is away does so for a while.
    async fn give_up<K: Sink>(&mut self, sink: &K, error: InsertError) -> Result<Settled, Trouble> {
        if !self.answers.take_unproven() {
            return Err(Trouble::Insert(error));
        }
        if sink.insert_is_running(self.token).await? {
            return Err(Trouble::StillRunning);
        }
        Ok(Settled::Unknowable(error))
    }

    /// The rows can no longer be had, but an earlier try may have stored them.
    async fn lost<K: Sink>(&self, sink: &K, error: InsertError) -> Result<Settled, Trouble> {
        if self.in_doubt {
            if sink.insert_is_running(self.token).await? {
                return Err(Trouble::StillRunning);
            }
            if self.is_present(sink).await?.unwrap_or(false) {
                return Ok(Settled::Stored);
            }
        }
        Ok(Settled::Lost(error.message))
    }

    /// Looks for rows that may be there; `None` if they are not and the token still holds.
    async fn look<K: Sink>(
        &mut self,
        sink: &K,
        table: Table,
        is_restarted: bool,
    ) -> Result<Option<Settled>, Trouble> {
        if sink.insert_is_running(self.token).await? {
            return Err(Trouble::StillRunning);
        }
        Ok(match self.sought.look(sink, table, self.month).await? {
            Presence::All => Some(Settled::Stored),
            Presence::Some => Some(Settled::Parted),
            Presence::None => {
                // From now on they are there because this insert was stored, or not at all.
                self.sought = std::mem::take(&mut self.sought).into_block();
                is_restarted.then_some(Settled::Absent)
            }
        })
    }

    /// Whether the rows are there, which were sent as a block; `None` if the table cannot be asked.
    async fn is_present<K: Sink>(&self, sink: &K) -> Result<Option<bool>, QueryError> {
        let Some(table) = self.table else {
            return Ok(None);
        };
        let presence = self.sought.look(sink, table, self.month).await?;
        Ok(Some(presence != Presence::None))
    }

    async fn report<K: Sink>(&self, sink: &K, trouble: &Trouble, is_said: bool) {
        let (outcome, message, is_schema) = match trouble {
            Trouble::Insert(error) => (
                error.outcome.name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Trouble::Query(error) => (
                error.outcome_name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Trouble::StillRunning => (
                "running",
                "an earlier try is still running".to_owned(),
                false,
            ),
        };
        counter!("millrace_insert_retries_total", "lane" => self.lane, "outcome" => outcome)
            .increment(1);
        if !is_schema {
            if is_said {
                tracing::warn!(
                    token = self.token,
                    outcome,
                    "insert will be tried again: {message}"
                );
            }
            return;
        }
        match sink.migrate().await {
            // At a first start events may be earlier than their tables.
            Ok(()) => tracing::info!(
                token = self.token,
                "the missing table is made; insert will be tried again"
            ),
            Err(error) => tracing::warn!(
                token = self.token,
                "the missing table cannot be made: {error}; insert will be tried again"
            ),
        }
    }
}
