//! Parts that run beside ingestion, each on a thread of its own: the organization API, exports,
//! persons.
//!
//! None of them ends by itself in ordinary use. A part that panics would stand still for ever
//! unnoticed, as events still come in. So the process then drains and ends with an error, and its
//! supervisor starts it again.

use crate::admin::Admin;
use crate::config::Config;
use crate::connect;
use crate::exports::Exports;
use crate::persons::Persons;
use anyhow::anyhow;
use std::future::pending;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Parts that run in this process.
#[derive(Debug, Default)]
pub struct BackgroundParts {
    pub admin: Option<Admin>,
    pub exports: Option<Exports>,
    pub persons: Option<Persons>,
}

impl BackgroundParts {
    /// Starts the parts that need ClickHouse, if its address is known.
    ///
    /// # Errors
    /// When the key of secrets cannot be read, or a thread cannot be started.
    pub fn start_workers(&mut self, config: &Config) -> anyhow::Result<()> {
        if self.admin.is_none() {
            return Ok(());
        }
        let settings = connect::clickhouse_settings(config);
        if config.export_runs_max > 0 {
            match &settings {
                Ok(settings) => self.exports = Some(Exports::start(config, settings)?),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "batch exports do not run here: give --clickhouse-url"
                ),
            }
        }
        // A wrong address was reported for exports.
        if let Ok(settings) = settings {
            self.persons = Some(Persons::start(config, &settings)?);
        }
        Ok(())
    }

    /// Guards of the roles that one process at a time has. When a guard is dropped, this process
    /// gives up its role, and asks for it no more; the API goes on.
    pub fn leader_roles(&self) -> Vec<DropGuard> {
        let exports = self.exports.as_ref().map(Exports::stop_on_drop);
        let persons = self.persons.as_ref().map(Persons::stop_on_drop);
        let cleanup = self.admin.as_ref().map(Admin::stop_cleanup_on_drop);
        [exports, persons, cleanup].into_iter().flatten().collect()
    }

    /// Waits until a part ends by itself; returns the reason. The others go on.
    pub async fn failed(&mut self) -> anyhow::Error {
        // A failed part must not be polled again.
        let error = tokio::select! {
            error = failed(&mut self.admin, Admin::failed) => {
                self.admin = None;
                error
            }
            error = failed(&mut self.exports, Exports::failed) => {
                self.exports = None;
                error
            }
            error = failed(&mut self.persons, Persons::failed) => {
                self.persons = None;
                error
            }
        };
        tracing::error!(
            error = format!("{error:#}"),
            "stopping, to be started again"
        );
        error
    }

    /// Stops all parts at the same time, once they have finished what is in flight, or the stop is
    /// cut short.
    ///
    /// # Errors
    /// When the API failed.
    pub async fn stop(self, cut_short: &CancellationToken) -> anyhow::Result<()> {
        // What they leave is what a crash leaves.
        let stopped = cut_short.run_until_cancelled(self.finish()).await;
        stopped.unwrap_or(Ok(()))
    }

    async fn finish(self) -> anyhow::Result<()> {
        let Self {
            admin,
            exports,
            persons,
        } = self;
        let exports = async {
            if let Some(exports) = exports {
                exports.stop().await;
            }
        };
        let persons = async {
            if let Some(persons) = persons {
                persons.stop().await;
            }
        };
        let admin = async {
            match admin {
                Some(admin) => admin.stop().await,
                None => Ok(()),
            }
        };
        let ((), (), stopped) = tokio::join!(exports, persons, admin);
        stopped
    }
}

/// Outcome of a process: the failure that ended it comes first, then those of its stop.
///
/// # Errors
/// All of these failures, in one message.
pub fn outcome(failures: [Option<anyhow::Error>; 3]) -> anyhow::Result<()> {
    let mut failures = failures.into_iter().flatten();
    let Some(first) = failures.next() else {
        return Ok(());
    };
    let others: Vec<_> = failures.map(|error| format!("{error:#}")).collect();
    if others.is_empty() {
        return Err(first);
    }
    let others = others.join("; ");
    Err(anyhow!(
        "{first:#}; while the process stopped, this failed as well: {others}"
    ))
}

async fn failed<T>(
    part: &mut Option<T>,
    failed: impl AsyncFnOnce(&mut T) -> anyhow::Error,
) -> anyhow::Error {
    match part {
        Some(part) => failed(part).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exports, persons};
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    /// Ways in which a thread ends, and a part of the reason that is reported.
    fn ends() -> [(Option<anyhow::Result<()>>, &'static str); 3] {
        [
            (None, "panicked"),
            (Some(Ok(())), "ended by"),
            (Some(Err(anyhow!("a lease"))), "a lease"),
        ]
    }

    /// Token of a stop that nobody cuts short.
    fn never() -> CancellationToken {
        CancellationToken::new()
    }

    fn thread(end: Option<anyhow::Result<()>>) -> oneshot::Receiver<anyhow::Result<()>> {
        let (ending, ended) = oneshot::channel();
        if let Some(end) = end {
            ending.send(end).unwrap();
        }
        ended
    }

    #[test]
    fn the_failure_that_ended_a_process_is_told_with_those_of_its_stop() {
        let error = |name: &'static str| Some(anyhow!(name));
        let together = "; while the process stopped, this failed as well: ";
        let table = [
            ([None, None, None], None),
            ([None, None, error("stop")], Some("stop".to_owned())),
            ([error("part"), None, None], Some("part".to_owned())),
            (
                [error("part"), None, error("stop")],
                Some(format!("part{together}stop")),
            ),
            (
                [None, error("engine"), error("stop")],
                Some(format!("engine{together}stop")),
            ),
            (
                [error("part"), error("engine"), error("stop")],
                Some(format!("part{together}engine; stop")),
            ),
        ];
        for (failures, expected) in table {
            let found = outcome(failures).err();
            assert_eq!(found.map(|error| error.to_string()), expected);
        }
    }

    #[tokio::test]
    async fn a_part_that_ends_by_itself_is_a_failure_and_the_others_are_stopped() {
        for (end, reason) in ends() {
            let mut background_parts = BackgroundParts {
                exports: Some(Exports::of_thread(thread(end))),
                ..BackgroundParts::default()
            };
            let error = background_parts.failed().await;
            assert!(format!("{error:#}").contains(reason), "{error:#}");
            background_parts.stop(&never()).await.unwrap();
        }
        for (end, reason) in ends() {
            let (other, other_ended) = oneshot::channel();
            let mut background_parts = BackgroundParts {
                exports: Some(Exports::of_thread(other_ended)),
                persons: Some(Persons::of_thread(thread(end))),
                ..BackgroundParts::default()
            };
            let error = background_parts.failed().await;
            assert!(format!("{error:#}").contains(reason), "{error:#}");
            other.send(Ok(())).unwrap();
            background_parts.stop(&never()).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_do_not_end_are_waited_for_at_the_same_time() {
        let (_exports, exports_ended) = oneshot::channel();
        let (_persons, persons_ended) = oneshot::channel();
        let background_parts = BackgroundParts {
            exports: Some(Exports::of_thread(exports_ended)),
            persons: Some(Persons::of_thread(persons_ended)),
            ..BackgroundParts::default()
        };
        let (began, an_hour) = (Instant::now(), Duration::from_secs(3_600));
        let stopped = timeout(an_hour, background_parts.stop(&never())).await;
        stopped
            .expect("a part is waited for without an end")
            .unwrap();
        let longest = exports::STOP_TIMEOUT.max(persons::STOP_TIMEOUT);
        assert_eq!(began.elapsed().as_secs(), longest.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_do_not_end_are_not_waited_for_once_the_stop_is_cut_short() {
        let (_exports, exports_ended) = oneshot::channel();
        let background_parts = BackgroundParts {
            exports: Some(Exports::of_thread(exports_ended)),
            ..BackgroundParts::default()
        };
        let (began, cut_short) = (Instant::now(), never());
        let cut = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cut_short.cancel();
        };
        let (stopped, ()) = tokio::join!(background_parts.stop(&cut_short), cut);
        stopped.unwrap();
        assert_eq!(began.elapsed().as_secs(), 1);
    }
}
