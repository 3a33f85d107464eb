//! One question of many askers: it is asked once at a time, and its answer goes to all who came before it
//! was asked.

use crate::QueryError;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A question that several ask of one server, by the name they ask under.
#[derive(Debug)]
pub(crate) struct SharedQuestion<T> {
    last: Mutex<Option<Asked<T>>>,
}

#[derive(Debug)]
struct Asked<T> {
    name: String,
    began: Instant,
    answer: Result<T, QueryError>,
}

impl<T: Clone> SharedQuestion<T> {
    pub(crate) fn new() -> Self {
        let last = Mutex::new(None);
        Self { last }
    }

    /// Asks, or takes an answer to what was asked under this name since this call. An older answer would not
    /// do: what it says may have changed.
    pub(crate) async fn ask(
        &self,
        name: &str,
        question: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(asked) = last.as_ref()
            && asked.name == name
            && asked.began > came
        {
            return asked.answer.clone();
        }
        let began = Instant::now();
        let answer = question.await;
        *last = Some(Asked {
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

    /// What a server is asked: how often in all, and at once.
    #[derive(Debug, Default)]
    struct Server {
        asked: AtomicU32,
        at_once: AtomicU32,
    }

    impl Server {
        /// Answers with the number of the question.
        async fn question(&self) -> Result<u32, QueryError> {
            assert_eq!(self.at_once.fetch_add(1, Ordering::Relaxed), 0);
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(100)).await;
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            Ok(number)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn askers_wait_for_one_another_and_share_what_is_asked_after_they_came() {
        // When they come, under which name, and which question they get the answer to.
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
        let shared = Arc::new(SharedQuestion::new());
        let mut askers = JoinSet::new();
        for (at_millis, name, expected) in table {
            let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
            askers.spawn(async move {
                sleep(Duration::from_millis(at_millis)).await;
                let answer = shared.ask(name, server.question()).await.unwrap();
                assert_eq!(answer, expected, "at {at_millis}");
            });
        }
        while let Some(asked) = askers.join_next().await {
            asked.unwrap();
        }
        assert_eq!(server.asked.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn an_asker_that_is_dropped_lets_the_next_one_ask() {
        let shared = SharedQuestion::new();
        let never = shared.ask("node", std::future::pending::<Result<u32, QueryError>>());
        let given_up = tokio::time::timeout(Duration::from_secs(1), never).await;
        assert!(given_up.is_err());
        let answer = shared.ask("node", async { Ok(7) }).await.unwrap();
        assert_eq!(answer, 7);
    }
}
