//! Bare loop of inserts: the engine without the server.
//!
//! The inserts are recorded on their way from a server under load. The loop thus sends the very
//! same blocks by the same statements, but without tokens and to another table.

use super::bench::Bench;
use super::engine::Engine;
use super::load::Load;
use super::row_curve::RowCurve;
use super::server::{Contestant, Server, ServerOptions};
use crate::clickhouse::ClickHouse;
use crate::process::pin_this_thread;
use crate::proxy::{Insert, Proxy};
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result, anyhow, ensure};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::JoinSet;

/// Table of the loop.
const TABLE: &str = "events_bare";
/// Approximate size limit of the recorded inserts in bytes.
const BYTES_MAX: usize = 1 << 30;
/// Number of concurrent inserts, the same as the server's.
const IN_FLIGHT: usize = 4;

/// Recorded inserts with their numbers of rows.
#[derive(Clone, Debug)]
pub struct Inserts(Arc<[(Insert, u64)]>);

impl Inserts {
    /// Records the inserts of a server under load through a proxy, and counts the rows of each by
    /// the engine.
    ///
    /// # Errors
    /// The server does not start, the run fails, or the engine refuses.
    pub fn record(
        bench: &Bench<'_>,
        engine: &Engine,
        contestant: Contestant,
        load: Load,
    ) -> Result<Self> {
        let events = bench.effort.shipped_events / 2;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let proxy = Proxy::start(any_port, &engine.clickhouse().url)?;
        proxy.record("`events`", BYTES_MAX);
        let through_proxy = ClickHouse {
            url: proxy.url(),
            ..engine.clickhouse().clone()
        };
        let options = ServerOptions {
            clickhouse: Some(&through_proxy),
            ..ServerOptions::default()
        };
        let server = Server::start_with(bench, contestant, options)?;
        let mut plan = bench.plan(&server, contestant.cpus());
        load.apply(&mut plan);
        let plan = plan.with_requests(events / u64::from(load.batch_events));
        let summary = bench.run(&plan)?;
        server.wait_until_shipped(bench, summary.run.acknowledged_events)?;
        drop(server);
        engine.empty()?;
        let mut inserts = proxy.recorded();
        // The last insert is a remainder.
        if inserts.len() > 1 {
            inserts.pop();
        }
        Self::counted(inserts, engine)
    }

    fn counted(inserts: Vec<Insert>, engine: &Engine) -> Result<Self> {
        ensure!(!inserts.is_empty(), "the server sent no insert");
        renew_table(engine)?;
        let (mut counted, mut before) = (Vec::new(), 0);
        for mut insert in inserts {
            insert.path_and_query = bare(&insert.path_and_query)?;
            engine.insert(&insert)?;
            let rows = engine.rows(TABLE)?;
            ensure!(
                rows > before,
                "an insert of a recorded block stored nothing"
            );
            counted.push((insert, rows - before));
            before = rows;
        }
        Ok(Self(counted.into()))
    }

    /// Mean number of rows of an insert.
    #[must_use]
    pub fn rows_mean(&self) -> f64 {
        let rows: u64 = self.0.iter().map(|(_, rows)| rows).sum();
        rows as f64 / self.0.len().max(1) as f64
    }

    /// Sends the inserts over and over until `rows` rows are stored, from a thread on the
    /// generator's CPUs.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn send(
        &self,
        bench: &Bench<'_>,
        engine: &Engine,
        contestant: Contestant,
        rows: u64,
    ) -> Result<RowCurve> {
        renew_table(engine)?;
        let cpu = bench.cpus.generator(contestant.cpus()).first().copied();
        let (inserts, clickhouse) = (self.clone(), engine.clickhouse().clone());
        let send = move || {
            if let Some(cpu) = cpu {
                pin_this_thread(cpu)?;
            }
            let runtime = current_thread_runtime()?;
            runtime.block_on(inserts.send_all(clickhouse, rows))
        };
        let thread = std::thread::Builder::new().name("bare-inserts".to_owned());
        let thread = thread.spawn(send).context("cannot start a thread")?;
        let curve = thread
            .join()
            .map_err(|_| anyhow!("the bare loop of inserts panicked"))??;
        drop_table(engine)?;
        Ok(curve)
    }

    async fn send_all(self, clickhouse: ClickHouse, rows: u64) -> Result<RowCurve> {
        let state = Arc::new(Mutex::new(State {
            next: 0,
            taken: 0,
            stored: 0,
            curve: RowCurve::new(),
        }));
        let started = Instant::now();
        let mut senders = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (inserts, state, clickhouse) =
                (self.clone(), Arc::clone(&state), clickhouse.clone());
            senders.spawn(async move {
                let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    let taken = lock().take(&inserts, rows);
                    let Some((insert, count)) = taken else {
                        return anyhow::Ok(());
                    };
                    let body = insert.rows.clone();
                    clickhouse.insert(&insert.path_and_query, body).await?;
                    lock().store(count, started);
                }
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender.context("a sender panicked")??;
        }
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.curve.clone())
    }
}

/// Progress of the loop.
struct State {
    next: usize,
    taken: u64,
    stored: u64,
    curve: RowCurve,
}

impl State {
    /// Takes the next insert, unless enough are in flight or stored.
    fn take<'a>(&mut self, inserts: &'a Inserts, rows_max: u64) -> Option<(&'a Insert, u64)> {
        if self.taken >= rows_max {
            return None;
        }
        let (insert, rows) = inserts.0.get(self.next % inserts.0.len().max(1))?;
        self.next += 1;
        self.taken += rows;
        Some((insert, *rows))
    }

    fn store(&mut self, rows: u64, started: Instant) {
        self.stored += rows;
        let seconds = started.elapsed().as_secs_f64();
        self.curve.note(seconds, self.stored);
    }
}

fn renew_table(engine: &Engine) -> Result<()> {
    drop_table(engine)?;
    engine.execute(&format!("CREATE TABLE millrace.{TABLE} AS millrace.events"))
}

fn drop_table(engine: &Engine) -> Result<()> {
    engine.execute(&format!("DROP TABLE IF EXISTS millrace.{TABLE} SYNC"))
}

/// Changes an insert into one to the loop's table, without its token and query id and without
/// deduplication.
fn bare(path_and_query: &str) -> Result<String> {
    let (path, query) = path_and_query
        .split_once('?')
        .context("an insert without a statement")?;
    let mut settings = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "insert_deduplication_token" | "query_id" => {}
            "insert_deduplicate" => {
                settings.append_pair(&name, "0");
            }
            "query" => {
                let statement = value.replacen("`events`", &format!("`{TABLE}`"), 1);
                settings.append_pair(&name, &statement);
            }
            _ => {
                settings.append_pair(&name, &value);
            }
        }
    }
    Ok(format!("{path}?{}", settings.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_bare_insert_has_its_own_table_and_no_token() {
        let sent = "/?query=INSERT+INTO+%60millrace%60.%60events%60+%28a%29+FORMAT+RowBinary\
                    &insert_deduplication_token=t&query_id=t&insert_deduplicate=1&decompress=1";
        assert_eq!(
            bare(sent).unwrap(),
            "/?query=INSERT+INTO+%60millrace%60.%60events_bare%60+%28a%29+FORMAT+RowBinary\
             &insert_deduplicate=0&decompress=1"
        );
        assert!(bare("/").is_err());
    }

    #[test]
    fn the_loop_repeats_the_inserts_until_enough_rows_are_taken() {
        let insert = |name: &str, rows| {
            let insert = Insert {
                path_and_query: name.to_owned(),
                rows: Bytes::new(),
            };
            (insert, rows)
        };
        let inserts = Inserts([insert("a", 10), insert("b", 20)].into());
        assert_eq!(inserts.rows_mean(), 15.0);
        let mut state = State {
            next: 0,
            taken: 0,
            stored: 0,
            curve: RowCurve::new(),
        };
        let mut taken = Vec::new();
        while let Some((insert, rows)) = state.take(&inserts, 35) {
            taken.push(insert.path_and_query.clone());
            state.store(rows, Instant::now());
        }
        assert_eq!(taken, ["a", "b", "a"]);
        assert_eq!(state.curve.rows(), 40.0);
    }
}
