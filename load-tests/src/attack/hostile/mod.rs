//! Everything that a hostile tenant, a stranger and a hostile analyst do at once, again and again.
//!
//! | File | Does |
//! |---|---|
//! | [`capture`] | bombs, mutated bodies, image tags and unfinished requests without a key |
//! | [`sender`] | all that a project's key allows: bombs, months, persons, large and slow bodies |
//! | [`exports`] | costly queries, servers that hang, other people's folders |
//! | [`member`] | plugins that break parsers, records up to every limit, lists that nobody reads |
//! | [`names`] | texts that terminals follow, in every field of every destination and of domains |
//! | [`operations`] | every operation of the API's document, on things that are there, with bodies made at random |
//! | [`analyst`] | what the password of ClickHouse does not allow, and reads that it does |
//!
//! Each task sends one request after the other, with a pause: what is tested is what a request costs, not
//! how many a machine can send that the server shares with its attackers.

mod analyst;
mod capture;
mod exports;
mod ids;
mod made;
mod member;
mod names;
mod operations;
mod sender;
mod tasks;

pub use tasks::task_names;
pub(super) use tasks::unproved;

use super::Options;
use super::bombs::{self, Bomb};
use super::http::Client;
use super::mutate::Corpus;
use super::subject::Subject;
use super::tally::Tally;
use super::tenants::{ANALYST, SENDER, STRANGER, Tenants};
use crate::clickhouse::ClickHouse;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tasks::TASKS;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// Characters that a terminal, a log or a mail would follow, in one line of a table.
pub(super) const HOSTILE_TEXT: &str = "evil\u{1b}]0;pwned\u{7}\u{1b}[2J\r\n9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";
/// Behind all others where there is one machine for all.
const ATTACKERS_NICE: i32 = 15;
/// How long it may take to delete what would go on.
const CLEAR_MAX: Duration = Duration::from_secs(30);

/// The folder that the good tenant exports to, and the hostile one, too.
pub(super) const EXPORT_FOLDER: &str = "out";

/// What all tasks know.
pub(super) struct Arsenal {
    tenants: Arc<Tenants>,
    tally: Arc<Tally>,
    corpus: Corpus,
    bombs_of_nobody: Vec<Bomb>,
    bombs_with_key: Vec<Bomb>,
    /// Paths, by how their data is encoded.
    image_tags: Vec<(&'static str, String)>,
    stranger: Client,
    sender: Client,
    analyst: Client,
    clickhouse: ClickHouse,
    data_dir: PathBuf,
    pid: u32,
    only: Vec<String>,
    pause: Duration,
    seed: u64,
}

impl Arsenal {
    /// Makes what is expensive to make.
    pub(super) fn new(
        options: &Options,
        subject: &Subject,
        tenants: &Arc<Tenants>,
        tally: &Arc<Tally>,
    ) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(options.seed);
        let (ingest, engine) = (
            &subject.credentials.ingest_url,
            &subject.credentials.clickhouse_url,
        );
        Ok(Self {
            tenants: Arc::clone(tenants),
            tally: Arc::clone(tally),
            corpus: Corpus::read(&options.corpus)?,
            bombs_of_nobody: bombs::all(None, &mut rng)?,
            bombs_with_key: bombs::all(Some(&tenants.hostile.project_key), &mut rng)?,
            image_tags: bombs::image_tags()?,
            stranger: Client::new(ingest, STRANGER)?,
            sender: Client::new(ingest, SENDER)?,
            analyst: Client::new(engine, ANALYST)?,
            clickhouse: subject.clickhouse(),
            data_dir: subject.data_dir(),
            pid: subject.pid(),
            only: options.only.clone(),
            pause: options.pause,
            seed: options.seed,
        })
    }

    /// Does all of it at once for so long; what is under way then is dropped, as hostile clients do. Its exports go
    /// in the end, so that calm is calm.
    pub(super) fn strike(self: &Arc<Self>, round: u32, duration: Duration) -> Result<()> {
        // Attackers have machines of their own, and take no time of the server's.
        setpriority_process(Some(gettid()), ATTACKERS_NICE).context("priority")?;
        let runtime = super::runtime()?;
        LocalSet::new().block_on(&runtime, async {
            let hung = exports::hanging_server().await?;
            let mut seeds = StdRng::seed_from_u64(self.seed ^ u64::from(round) << 32);
            let mut started = Vec::new();
            for task in TASKS {
                for _ in 0..task.times {
                    let rng = StdRng::seed_from_u64(seeds.random());
                    if self.is_wanted(task.name) {
                        let begun = (task.start)(Arc::clone(self), rng, hung);
                        started.push(tokio::task::spawn_local(begun));
                    }
                }
            }
            sleep(duration).await;
            for task in started {
                task.abort();
            }
            if timeout(CLEAR_MAX, exports::clear(self, 0)).await.is_err() {
                self.tally.count("deleted exports", "not all in time");
            }
            Ok(())
        })
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
