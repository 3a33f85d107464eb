//! Single flight: a query of many callers is run once at a time, and its answer goes to all who
//! called before it was sent.

use crate::QueryError;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Query that several callers send to one server, by a name.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    last: Mutex<Option<LastAnswer<T>>>,
}

#[derive(Debug)]
struct LastAnswer<T> {
    name: String,
    began: Instant,
    answer: Result<T, QueryError>,
}

impl<T: Clone> SingleFlight<T> {
    pub(crate) fn new() -> Self {
        let last = Mutex::new(None);
        Self { last }
    }

    /// Runs the query, or takes the answer to one that was sent under this name since this call. An
    /// older answer may be outdated.
    pub(crate) async fn ask(
        &self,
        name: &str,
        query: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(asked) = last.as_ref()
            && asked.name == name
            && asked.began > called
        {
            return asked.answer.clone();
        }
        let began = Instant::now();
        let answer = query.await;
        *last = Some(LastAnswer {
            name: name.to_owned(),
            began,
            answer: answer.clone(),
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    /// Server that counts queries, in all and at once.
    #[derive(Debug, Default)]
    struct Server {
        asked: AtomicU32,
        at_once: AtomicU32,
    }

    impl Server {
        /// Answers with the number of the query.
        async fn query(&self) -> Result<u32, QueryError> {
            assert_eq!(self.at_once.fetch_add(1, Ordering::Relaxed), 0);
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(100)).await;
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            Ok(number)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_share_the_answer_to_a_query_sent_after_their_call() {
        // Time of a call, its name, and the number of the query whose answer it gets.
        let table = [
            (0, "node", 0),
            (50, "node", 1),
            (60, "node", 1),
            (99, "node", 1),
            (150, "node", 2),
            (160, "other", 3),
            (170, "node", 4),
        ];
        let server = Arc::new(Server::default());
        let shared = Arc::new(SingleFlight::new());
        let mut callers = JoinSet::new();
        for (at_millis, name, expected) in table {
            let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
            callers.spawn(async move {
                sleep(Duration::from_millis(at_millis)).await;
                let answer = shared.ask(name, server.query()).await.unwrap();
                assert_eq!(answer, expected, "at {at_millis}");
            });
        }
        while let Some(asked) = callers.join_next().await {
            asked.unwrap();
        }
        assert_eq!(server.asked.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_caller_lets_the_next_one_query() {
        let shared = SingleFlight::new();
        let never = shared.ask("node", std::future::pending::<Result<u32, QueryError>>());
        let given_up = tokio::time::timeout(Duration::from_secs(1), never).await;
        assert!(given_up.is_err());
        let answer = shared.ask("node", async { Ok(7) }).await.unwrap();
        assert_eq!(answer, 7);
    }
}
