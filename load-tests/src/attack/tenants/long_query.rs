//! A query that its tenant runs for a known time, so that others may try to stop it.
//!
//! No list has the ids of running queries, and an id of a query that does not run is not found
//! whoever names it. So the tenant tells its id while it runs, and the answer tells from when on
//! there was something to stop. A query that somebody stopped has no right answer.

use crate::attack::lock::lock;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Query of one row: the time at which it began, in microseconds since 1970, and a zero that takes
/// [`RUNS_FOR`]. ClickHouse lets one call sleep for three seconds at the most.
pub(in crate::attack) const SQL: &str = "SELECT toUnixTimestamp64Micro(now64(6)) AS began, \
    sleepEachRow(2.4) + sleepEachRow(2.6) AS slept FROM numbers(1)";
/// Time for which the query runs at least, from its own time on.
const RUNS_FOR: Duration = Duration::from_secs(5);
/// Longest wait for its end: a busy server may begin late.
const END_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Long query of a tenant, one at a time.
#[derive(Debug, Default)]
pub(in crate::attack) struct LongQuery(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    /// Id of the query that was sent and not answered yet.
    running: Option<String>,
    ended: Option<EndedQuery>,
}

/// The last query that was answered.
#[derive(Clone, Debug)]
struct EndedQuery {
    id: String,
    /// Time since 1970 at which it began; `None` without the right answer.
    began: Option<Duration>,
}

/// Time of a request, as times since 1970.
#[derive(Clone, Copy, Debug)]
pub(in crate::attack) struct TimeSpan {
    pub(in crate::attack) from: Duration,
    pub(in crate::attack) until: Duration,
}

impl LongQuery {
    /// Notes that the query with this id was sent.
    pub(in crate::attack) fn begin(&self, id: &str) {
        lock(&self.0).running = Some(id.to_owned());
    }

    /// Notes that the query was answered, and when it began if the answer was right.
    pub(in crate::attack) fn end(&self, id: &str, began: Option<Duration>) {
        let mut runs = lock(&self.0);
        runs.running = None;
        runs.ended = Some(EndedQuery {
            id: id.to_owned(),
            began,
        });
    }

    /// Id of the query that was sent and not answered yet.
    pub(in crate::attack) fn id(&self) -> Option<String> {
        lock(&self.0).running.clone()
    }

    /// Waits for the end of a query; returns true if it ran during the whole of a request, and
    /// ended as it should.
    pub(in crate::attack) async fn ran_during(&self, id: &str, request: TimeSpan) -> bool {
        let given_up_at = Instant::now() + END_MAX;
        while self.id().as_deref() == Some(id) && Instant::now() < given_up_at {
            sleep(LOOK_AGAIN).await;
        }
        let ended = lock(&self.0).ended.clone();
        ended.is_some_and(|ended| ended.id == id && ended.ran_during(request))
    }
}

impl EndedQuery {
    fn ran_during(&self, request: TimeSpan) -> bool {
        self.began
            .is_some_and(|began| request.from >= began && request.until <= began + RUNS_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::current_thread_runtime;

    #[test]
    fn a_request_counts_if_the_query_ran_during_all_of_it_and_was_answered() {
        let at = Duration::from_secs;
        for (began, from, until, counts) in [
            (Some(at(10)), at(10), at(15), true),
            (Some(at(10)), at(12), at(13), true),
            (Some(at(10)), at(9), at(13), false),
            (Some(at(10)), at(12), at(16), false),
            (None, at(12), at(13), false),
        ] {
            let query = LongQuery::default();
            query.begin("a");
            assert_eq!(query.id().as_deref(), Some("a"));
            query.end("a", began);
            assert_eq!(query.id(), None);
            let request = TimeSpan { from, until };
            let runtime = current_thread_runtime().unwrap();
            let found = runtime.block_on(async {
                // Another one may have begun by then.
                query.begin("b");
                query.ran_during("a", request).await
            });
            assert_eq!(found, counts, "{began:?} {request:?}");
            assert!(!runtime.block_on(query.ran_during("c", request)));
        }
    }
}
