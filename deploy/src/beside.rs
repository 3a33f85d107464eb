//! Parts that run beside ingestion, each on a thread of its own: the organization API, exports, persons.
//!
//! None of them ends by itself. One that does all the same, by a panic, would stand still for ever and nobody
//! would notice, as events still come in: so the process ends in order and with an error, and whoever
//! started it starts it again.

use crate::admin::Admin;
use crate::config::Config;
use crate::exports::Exports;
use crate::open;
use crate::persons::Persons;
use std::future::pending;

/// What runs of them.
#[derive(Debug, Default)]
pub struct Beside {
    pub admin: Option<Admin>,
    pub exports: Option<Exports>,
    pub persons: Option<Persons>,
}

impl Beside {
    /// Starts what needs ClickHouse, where it is known.
    ///
    /// # Errors
    /// When the key of secrets cannot be read, or the system has no room for a thread.
    pub fn start_workers(&mut self, config: &Config) -> anyhow::Result<()> {
        if self.admin.is_none() {
            return Ok(());
        }
        let settings = open::clickhouse_settings(config);
        if config.export_runs_max > 0 {
            match &settings {
                Ok(settings) => self.exports = Some(Exports::start(config, settings)?),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "batch exports do not run here: give --clickhouse-url"
                ),
            }
        }
        // What is wrong with the address was said of exports.
        if let Ok(settings) = settings {
            self.persons = Some(Persons::start(config, &settings)?);
        }
        Ok(())
    }

    /// Waits until one of them ends by itself; why it did. The others go on.
    pub async fn failed(&mut self) -> anyhow::Error {
        // Of one that has failed nothing is to be asked any more.
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

    /// Lets them finish what is in flight.
    ///
    /// # Errors
    /// When something was wrong with the API.
    pub async fn stop(self) -> anyhow::Result<()> {
        if let Some(exports) = self.exports {
            exports.stop().await;
        }
        if let Some(persons) = self.persons {
            persons.stop().await;
        }
        match self.admin {
            Some(admin) => admin.stop().await,
            None => Ok(()),
        }
    }
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
    use anyhow::anyhow;
    use tokio::sync::oneshot;

    /// How a thread ends.
    fn ends() -> [(Option<anyhow::Result<()>>, &'static str); 3] {
        [
            (None, "panicked"),
            (Some(Ok(())), "ended by"),
            (Some(Err(anyhow!("a lease"))), "a lease"),
        ]
    }

    fn thread(end: Option<anyhow::Result<()>>) -> oneshot::Receiver<anyhow::Result<()>> {
        let (ending, ended) = oneshot::channel();
        if let Some(end) = end {
            ending.send(end).unwrap();
        }
        ended
    }

    #[tokio::test]
    async fn exports_or_persons_that_end_by_themselves_are_a_failure_and_the_other_is_stopped() {
        for (end, reason) in ends() {
            let mut beside = Beside {
                exports: Some(Exports::of_thread(thread(end))),
                ..Beside::default()
            };
            let error = beside.failed().await;
            assert!(format!("{error:#}").contains(reason), "{error:#}");
            beside.stop().await.unwrap();
        }
        for (end, reason) in ends() {
            let (other, other_ended) = oneshot::channel();
            let mut beside = Beside {
                exports: Some(Exports::of_thread(other_ended)),
                persons: Some(Persons::of_thread(thread(end))),
                ..Beside::default()
            };
            let error = beside.failed().await;
            assert!(format!("{error:#}").contains(reason), "{error:#}");
            other.send(Ok(())).unwrap();
            beside.stop().await.unwrap();
        }
    }
}
