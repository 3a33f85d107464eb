//! State that all attacking tasks share.

use super::operations::{CostlyOperation, OperationSearch};
use crate::attack::bombs::{self, Bomb};
use crate::attack::cost_search::{CostSearch, CostlyBody};
use crate::attack::findings::Findings;
use crate::attack::http::Client;
use crate::attack::mutate::Corpus;
use crate::attack::options::{Options, is_selected};
use crate::attack::subject::Subject;
use crate::attack::tenants::{ANALYST, GUESSER, SCRAPER, SENDER, STRANGER, Tenants};
use crate::clickhouse::ClickHouse;
use crate::runtime::current_thread_runtime;
use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Folder that both the good and the hostile tenant export to.
pub(in crate::attack) const EXPORT_FOLDER: &str = "out";

/// Shared state of all attacking tasks.
pub(in crate::attack) struct AttackContext {
    pub(super) tenants: Arc<Tenants>,
    pub(super) findings: Arc<Findings>,
    pub(super) corpus: Corpus,
    pub(super) bombs_of_nobody: Vec<Bomb>,
    pub(super) bombs_with_key: Vec<Bomb>,
    /// Costliest bodies of the stranger and of the sender with a key.
    pub(super) search_of_nobody: CostSearch,
    pub(super) search_with_key: CostSearch,
    /// Costliest requests of the hostile tenant to the API.
    pub(super) operation_search: OperationSearch,
    /// True from the end of a round's duration on.
    is_ending: AtomicBool,
    /// True in a round beyond those asked for.
    is_extra: AtomicBool,
    /// Paths of image tags, by the encoding of their data.
    pub(super) image_tags: Vec<(&'static str, String)>,
    pub(super) stranger: Client,
    pub(super) sender: Client,
    pub(super) analyst: Client,
    /// Client of the API that has no key.
    pub(super) guesser: Client,
    /// Client of the health listener.
    pub(super) scraper: Client,
    pub(super) clickhouse: ClickHouse,
    pub(super) data_dir: PathBuf,
    pub(super) pid: u32,
    pub(super) only: Vec<String>,
    /// Exports of a full organization.
    pub(super) full_exports: usize,
    pub(super) pause: Duration,
    pub(super) seed: u64,
}

impl AttackContext {
    /// Prepares corpora, bombs and clients.
    pub(in crate::attack) fn new(
        options: &Options,
        subject: &Subject,
        tenants: &Arc<Tenants>,
        findings: &Arc<Findings>,
    ) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(options.seed);
        let (ingest, engine) = (
            &subject.credentials.ingest_url,
            &subject.credentials.clickhouse_url,
        );
        Ok(Self {
            tenants: Arc::clone(tenants),
            findings: Arc::clone(findings),
            corpus: Corpus::read(&options.corpus)?,
            bombs_of_nobody: bombs::all(None, &mut rng)?,
            bombs_with_key: bombs::all(Some(&tenants.hostile.project_key), &mut rng)?,
            search_of_nobody: CostSearch::default(),
            search_with_key: CostSearch::default(),
            operation_search: OperationSearch::default(),
            is_ending: AtomicBool::new(false),
            is_extra: AtomicBool::new(false),
            image_tags: bombs::image_tags()?,
            stranger: Client::new(ingest, STRANGER)?,
            sender: Client::new(ingest, SENDER)?,
            analyst: Client::new(engine, ANALYST)?,
            guesser: Client::new(&subject.credentials.admin_url, GUESSER)?,
            scraper: Client::new(&subject.credentials.health_url, SCRAPER)?,
            clickhouse: subject.clickhouse(),
            data_dir: subject.data_dir(),
            pid: subject.pid(),
            only: options.only.clone(),
            full_exports: options.exports,
            pause: options.pause,
            seed: options.seed,
        })
    }

    /// Times the costliest bodies that were found, now that the attack is over.
    pub(in crate::attack) fn costliest_bodies(&self) -> Result<Vec<CostlyBody>> {
        current_thread_runtime()?.block_on(async {
            let nobody = self
                .search_of_nobody
                .costliest(&self.stranger, "without a key");
            let mut costliest = nobody.await;
            let with_key = self.search_with_key.costliest(&self.sender, "with a key");
            costliest.extend(with_key.await);
            Ok(costliest)
        })
    }

    /// The costliest requests to the API that were found.
    pub(in crate::attack) fn costliest_operations(&self) -> Vec<CostlyOperation> {
        self.operation_search.costliest()
    }

    /// Returns true if tasks that are awaited have to end.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    pub(super) fn set_ending(&self, is_ending: bool) {
        self.is_ending.store(is_ending, Ordering::Release);
    }

    /// Returns true in a round beyond those asked for, whose times are kept apart.
    pub(super) fn is_extra(&self) -> bool {
        self.is_extra.load(Ordering::Acquire)
    }

    pub(super) fn set_extra(&self, is_extra: bool) {
        self.is_extra.store(is_extra, Ordering::Release);
    }

    /// Returns true if a task was selected.
    pub(super) fn is_wanted(&self, name: &str) -> bool {
        is_selected(name, &self.only)
    }
}
