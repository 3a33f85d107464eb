//! Staging table of a delivery, and its end.

use crate::destination::table::run_key;
use crate::error::ExportError;
use crate::window::RunScope;
use std::time::Duration;
use uuid::Uuid;

/// Time limit for dropping a staging table.
pub(crate) const DROP_TIMEOUT: Duration = Duration::from_secs(50);

/// Name of the staging table of a window.
pub(crate) fn stage_name(table: &str, run: &RunScope) -> String {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, run_key(run).as_bytes());
    format!("{table}_millrace_{}", digest.simple())
}

/// Staging table that exists. The next try of the window replaces one that stays; after the last
/// try its rows stay, so the log names it, even if its delivery is cut off and this is dropped.
pub(crate) struct Stage {
    name: String,
    /// True if the attempt to drop it has ended, with its line in the log if it failed.
    is_settled: bool,
}

impl Stage {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            is_settled: false,
        }
    }

    /// Drops the table of a delivery that has ended, as far as that can be done in time.
    pub(crate) async fn end<T>(&mut self, dropping: impl Future<Output = Result<T, ExportError>>) {
        let dropped = tokio::time::timeout(DROP_TIMEOUT, dropping).await;
        self.is_settled = true;
        let stage = self.name.as_str();
        match dropped {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(stage, %error, "a staging table in a warehouse may stay");
            }
            Err(_) => tracing::warn!(
                stage,
                "a staging table in a warehouse was not dropped in time"
            ),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.is_settled {
            let stage = self.name.as_str();
            tracing::warn!(
                stage,
                "a delivery was cut off; its staging table in a warehouse may stay"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use std::future::{pending, ready};
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Subscriber that keeps the names of staging tables.
    #[derive(Clone, Default)]
    struct Named(Arc<Mutex<Vec<String>>>);

    impl Visit for Named {
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "stage" {
                self.0.lock().unwrap().push(value.to_owned());
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
    }

    impl Subscriber for Named {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Ending of a delivery with a staging table.
    #[derive(Clone, Copy, Debug)]
    enum Ending {
        Dropped,
        Refused,
        NeverAnswered,
        CutOff,
        WithoutAttempt,
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_names_a_staging_table_once_unless_it_was_dropped() {
        // Otherwise an event that another thread reaches first may be turned off for ever.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        for (ending, is_named) in [
            (Ending::Dropped, false),
            (Ending::Refused, true),
            (Ending::NeverAnswered, true),
            (Ending::CutOff, true),
            (Ending::WithoutAttempt, true),
        ] {
            let named = Named::default();
            let _logged = tracing::subscriber::set_default(named.clone());
            let mut stage = Stage::new("events_millrace_1".to_owned());
            let refused = ExportError::permanent("No.");
            match ending {
                Ending::Dropped => stage.end(ready(Ok(()))).await,
                Ending::Refused => stage.end(ready(Err::<(), _>(refused))).await,
                Ending::NeverAnswered => stage.end(pending::<Result<(), _>>()).await,
                Ending::CutOff => {
                    let cut_off = Duration::from_secs(1);
                    let dropping = stage.end(pending::<Result<(), _>>());
                    tokio::time::timeout(cut_off, dropping).await.unwrap_err();
                }
                Ending::WithoutAttempt => {}
            }
            drop(stage);
            let names = named.0.lock().unwrap().clone();
            let expected: &[&str] = if is_named {
                &["events_millrace_1"]
            } else {
                &[]
            };
            assert_eq!(names, expected, "{ending:?}");
        }
    }
}
