//! Looks whether ClickHouse can be used, from the start on. Events wait in the log where it cannot, and
//! nobody would notice before they have waited for long: so it is said once, in the log, in the banner,
//! by `/_health/ready?verbose` and by a metric, and taken back when it is mended.

use crate::config::{Config, Engine};
use crate::open;
use metrics::{describe_gauge, gauge};
use millrace_clickhouse::{ClickHouse, Purpose, QueryErrorKind, Settings, Unusable};
use millrace_embedded::Confinement;
use millrace_ingest::Readiness;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Between two looks while all is well, and while it is not.
const LOOK_EVERY: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// How long a start waits for the first answer of a server: one that is far away or hangs must hold
/// up nothing.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const USABLE: &str = "millrace_clickhouse_usable";

/// Begins to look where ClickHouse is known; answers what is wrong at the start, if that is known soon.
pub async fn begin(config: &Config, stores_events: bool, readiness: &Readiness) -> Option<String> {
    let settings = open::clickhouse_settings(config).ok()?;
    let purpose = match stores_events {
        true => Purpose::Events,
        false => Purpose::Persons,
    };
    let owner = match config.engine {
        Engine::Embedded { .. } => Owner::Us,
        Engine::Server { .. } => Owner::Others,
    };
    if owner == Owner::Us
        && let Some(warning) = Confinement::of_this_kernel().warning()
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
    /// Ours, as a child, whose supervisor says when it is not there.
    Us,
    /// Somebody else's.
    Others,
}

/// Outcome of the last look.
#[derive(Debug)]
struct ClickHouseWatch {
    found: watch::Receiver<Found>,
    owner: Owner,
}

#[derive(Clone, Debug)]
enum Found {
    NotYetAsked,
    Usable,
    Unusable(Unusable),
}

impl ClickHouseWatch {
    /// Begins to look, for as long as the runtime lives.
    fn start(settings: &Settings, purpose: Purpose, owner: Owner) -> Self {
        describe_gauge!(
            USABLE,
            "Whether ClickHouse knows us and has all that is needed of it"
        );
        let (tell, found) = watch::channel(Found::NotYetAsked);
        let clickhouse = ClickHouse::new(settings);
        tokio::spawn(async move { look(&clickhouse, purpose, owner, &tell).await });
        Self { found, owner }
    }

    /// Problem at the start; `None` if nothing is, or nothing can be said yet.
    async fn first_problem(&self) -> Option<String> {
        // Ours comes up while the banner is printed.
        if self.owner == Owner::Others {
            let mut found = self.found.clone();
            let asked = found.wait_for(|found| !matches!(found, Found::NotYetAsked));
            drop(timeout(FIRST_WAIT, asked).await);
        }
        match &*self.found.borrow() {
            Found::Unusable(problem) if !self.is_coming_up(problem) => Some(problem.to_string()),
            _ => None,
        }
    }

    /// A part for `/_health/ready?verbose`.
    fn failure(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let found = self.found.clone();
        move || match &*found.borrow() {
            Found::NotYetAsked => Some("it has not answered yet".to_owned()),
            Found::Usable => None,
            Found::Unusable(problem) => Some(problem.to_string()),
        }
    }

    fn is_coming_up(&self, problem: &Unusable) -> bool {
        is_told_by_supervisor(self.owner, problem)
    }
}

async fn look(
    clickhouse: &ClickHouse,
    purpose: Purpose,
    owner: Owner,
    tell: &watch::Sender<Found>,
) -> Infallible {
    let mut told: Option<String> = None;
    loop {
        let looked = clickhouse.check_usable(purpose).await;
        gauge!(USABLE).set(f64::from(u8::from(looked.is_ok())));
        let pause = match looked {
            Ok(()) => {
                if told.take().is_some() {
                    tracing::info!("ClickHouse can be used again");
                }
                tell.send_replace(Found::Usable);
                LOOK_EVERY
            }
            Err(problem) => {
                if told.as_ref() != Some(&problem.advice) && !is_told_by_supervisor(owner, &problem)
                {
                    report(&problem);
                    told = Some(problem.advice.clone());
                }
                tell.send_replace(Found::Unusable(problem));
                LOOK_AGAIN
            }
        };
        sleep(pause).await;
    }
}

/// Tells an engine of ours that is only not there: it comes up, or has died, which is said by who starts it.
fn is_told_by_supervisor(owner: Owner, problem: &Unusable) -> bool {
    let is_there = matches!(
        problem.kind,
        QueryErrorKind::Misconfigured | QueryErrorKind::Tls(_)
    );
    owner == Owner::Us && !is_there
}

fn report(problem: &Unusable) {
    match problem.kind {
        QueryErrorKind::Misconfigured | QueryErrorKind::Tls(_) => {
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
