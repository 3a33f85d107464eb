//! Health check of ClickHouse, from the start on. While ClickHouse cannot be used, events wait in
//! the log, which would go unnoticed for long: so the problem is reported once in the log, in the
//! banner, by `/_health/ready?verbose` and by a metric, and withdrawn when it is solved.
//!
//! And an end of statements that neither their limit nor `KILL` ends: ClickHouse looks at both
//! between two blocks only, and 32 such statements would keep all others out. The embedded engine
//! is started again then.

use crate::config::{Config, Engine};
use crate::connect;
use metrics::{describe_gauge, gauge};
use millrace_clickhouse::{ClickHouse, Purpose, QueryErrorKind, Settings, Unusable};
use millrace_embedded::{Confinement, EXPORT, PROJECT, QUERY, READER, Restarter};
use millrace_ingest::Readiness;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Pause between two checks, while ClickHouse can be used and while it cannot.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
const RECHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Longest wait of a start for the first response of a server: one that is far away or hangs must
/// delay nothing.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Users whose statements end after 300 s.
const LIMITED: [&str; 3] = [READER, PROJECT, QUERY];
/// Users whose statements take as long as their answers are read, unless they were told to end.
const UNLIMITED: [&str; 1] = [EXPORT];
/// Time after which a statement of these users has overstayed, in seconds.
const OVERDUE_SECONDS: u64 = 330;
const USABLE: &str = "millrace_clickhouse_usable";

/// Starts the checks if the address of ClickHouse is known; returns the problem at the start, if it
/// is known soon.
pub async fn begin(
    config: &Config,
    stores_events: bool,
    readiness: &Readiness,
    restarter: Option<Restarter>,
) -> Option<String> {
    let settings = connect::clickhouse_settings(config).ok()?;
    if let Some(restarter) = restarter {
        let clickhouse = ClickHouse::new(&settings);
        tokio::spawn(async move { end_overdue(&clickhouse, &restarter).await });
    }
    let purpose = match stores_events {
        true => Purpose::Events,
        false => Purpose::Persons,
    };
    let owner = match config.engine {
        Engine::Embedded { .. } => Owner::Us,
        Engine::Server { .. } => Owner::Others,
    };
    if owner == Owner::Us
        && let Some(warning) = Confinement::supported_by_kernel().warning()
    {
        readiness.observe("clickhouse_confinement", move || Some(warning.to_owned()));
    }
    let watch = ClickHouseWatch::start(&settings, purpose, owner);
    readiness.observe("clickhouse", watch.failure());
    watch.first_problem().await
}

/// Owner of the ClickHouse that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This process, as the engine is its child, whose supervisor reports its absence.
    Us,
    /// Another operator or service.
    Others,
}

/// Outcome of the last check.
#[derive(Debug)]
struct ClickHouseWatch {
    usability: watch::Receiver<Usability>,
    owner: Owner,
}

#[derive(Clone, Debug)]
enum Usability {
    Unknown,
    Usable,
    Unusable(Unusable),
}

impl ClickHouseWatch {
    /// Starts the checks, for as long as the runtime lives.
    fn start(settings: &Settings, purpose: Purpose, owner: Owner) -> Self {
        describe_gauge!(
            USABLE,
            "1 if ClickHouse accepts the user and has everything that is needed of it, else 0"
        );
        let (publish, usability) = watch::channel(Usability::Unknown);
        let clickhouse = ClickHouse::new(settings);
        tokio::spawn(async move { check(&clickhouse, purpose, owner, &publish).await });
        Self { usability, owner }
    }

    /// Problem at the start; `None` if there is none, or it is not known yet.
    async fn first_problem(&self) -> Option<String> {
        // The embedded engine comes up while the banner is printed.
        if self.owner == Owner::Others {
            let mut usability = self.usability.clone();
            let asked = usability.wait_for(|usability| !matches!(usability, Usability::Unknown));
            drop(timeout(FIRST_WAIT, asked).await);
        }
        match &*self.usability.borrow() {
            Usability::Unusable(problem) if !self.is_coming_up(problem) => {
                Some(problem.to_string())
            }
            _ => None,
        }
    }

    /// Failure for `/_health/ready?verbose`.
    fn failure(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let usability = self.usability.clone();
        move || match &*usability.borrow() {
            Usability::Unknown => Some("it has not answered yet".to_owned()),
            Usability::Usable => None,
            Usability::Unusable(problem) => Some(problem.to_string()),
        }
    }

    fn is_coming_up(&self, problem: &Unusable) -> bool {
        is_reported_by_supervisor(self.owner, problem)
    }
}

async fn check(
    clickhouse: &ClickHouse,
    purpose: Purpose,
    owner: Owner,
    publish: &watch::Sender<Usability>,
) -> Infallible {
    let mut reported: Option<String> = None;
    loop {
        let checked = clickhouse.check_usable(purpose).await;
        gauge!(USABLE).set(f64::from(u8::from(checked.is_ok())));
        let pause = match checked {
            Ok(()) => {
                if reported.take().is_some() {
                    tracing::info!("ClickHouse can be used again");
                }
                publish.send_replace(Usability::Usable);
                CHECK_INTERVAL
            }
            Err(problem) => {
                if reported.as_ref() != Some(&problem.advice)
                    && !is_reported_by_supervisor(owner, &problem)
                {
                    report(&problem);
                    reported = Some(problem.advice.clone());
                }
                publish.send_replace(Usability::Unusable(problem));
                RECHECK_INTERVAL
            }
        };
        sleep(pause).await;
    }
}

/// Ends statements of customers that have overstayed: those that a second look finds again, with
/// the engine.
async fn end_overdue(clickhouse: &ClickHouse, restarter: &Restarter) -> Infallible {
    let mut killed = BTreeSet::new();
    loop {
        sleep(CHECK_INTERVAL).await;
        let asked = clickhouse.overdue_statements(&LIMITED, &UNLIMITED, OVERDUE_SECONDS);
        // Without an answer nothing is known, and nothing forgotten.
        let Ok(overdue) = asked.await else {
            continue;
        };
        let overdue: BTreeSet<String> = overdue.into_iter().collect();
        let deaf: Vec<&str> = overdue.intersection(&killed).map(String::as_str).collect();
        if deaf.is_empty() {
            if !overdue.is_empty() {
                let stopped =
                    clickhouse.stop_overdue_statements(&LIMITED, &UNLIMITED, OVERDUE_SECONDS);
                if let Err(error) = stopped.await {
                    tracing::warn!(%error, "statements that take too long were not stopped");
                }
            }
            killed = overdue;
        } else {
            tracing::error!(
                query_ids = deaf.join(", "),
                "statements of customers ignore their limit of time and KILL, so ClickHouse is started again; an id \
                 of a query through the API has the project, as project_ID_…"
            );
            restarter.restart();
            killed.clear();
        }
    }
}

/// Returns true if the embedded engine is merely absent: it starts or has died, which its
/// supervisor reports.
fn is_reported_by_supervisor(owner: Owner, problem: &Unusable) -> bool {
    let is_there = matches!(
        problem.kind,
        QueryErrorKind::Misconfigured
            | QueryErrorKind::Cluster
            | QueryErrorKind::OtherCatalog
            | QueryErrorKind::Tls(_)
    );
    owner == Owner::Us && !is_there
}

fn report(problem: &Unusable) {
    match problem.kind {
        QueryErrorKind::Misconfigured
        | QueryErrorKind::Cluster
        | QueryErrorKind::OtherCatalog
        | QueryErrorKind::Tls(_) => {
            tracing::error!("what needs ClickHouse waits: {problem}");
        }
        QueryErrorKind::NoConnection
        | QueryErrorKind::NoHttp
        | QueryErrorKind::NotClickHouse
        | QueryErrorKind::Other => {
            tracing::warn!("what needs ClickHouse waits: {problem}");
        }
    }
}
