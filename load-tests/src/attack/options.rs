//! Options of an attack.

use std::path::PathBuf;
use std::time::Duration;

/// Exports that an organization may have by default (`batch_exports_max`).
const EXPORTS_MAX: usize = 200;
/// Rounds beyond those asked for, by default.
const EXTRA_ROUNDS_MAX: u32 = 3;

/// Options of an attack.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the server's program.
    pub server: PathBuf,
    /// Folder in which the data folder is created.
    pub dir: PathBuf,
    /// Folder of the fuzz targets' corpora.
    pub corpus: PathBuf,
    /// Length of each phase of calm.
    pub calm: Duration,
    /// Length of each phase of attack.
    pub attack: Duration,
    /// Number of rounds, each a phase of calm and a phase of attack.
    pub rounds: u32,
    /// Length of the phase in which the hostile tenant sends events of many months and nothing
    /// else, after all rounds; zero for none.
    pub months: Duration,
    /// Exports of a full organization.
    pub exports: usize,
    /// Highest number of further phases of attack, each of which is run only if an attack was never
    /// processed so far, or the good tenant never served.
    pub extra_rounds_max: u32,
    /// True if each operation, field and parameter of the API's document must have been processed,
    /// unless only some tasks are selected.
    pub is_complete: bool,
    /// Selected tasks of [`task_names`](super::task_names); empty selects all.
    pub only: Vec<String>,
    /// Approximate pause between two requests of a task; some tasks wait a multiple of it.
    pub pause: Duration,
    /// Seed of everything that is random.
    pub seed: u64,
}

/// Returns true if a task was selected; nothing selects all.
pub(super) fn is_selected(task: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|it| it == task)
}

impl Options {
    /// Default options: half a minute of calm and half a minute of attack, `minutes` times, and a
    /// minute beside events of many months.
    #[must_use]
    pub fn new(server: PathBuf, dir: PathBuf, corpus: PathBuf, minutes: u32) -> Self {
        Self {
            server,
            dir,
            corpus,
            calm: Duration::from_secs(30),
            attack: Duration::from_secs(30),
            rounds: minutes,
            months: Duration::from_secs(60),
            exports: EXPORTS_MAX,
            extra_rounds_max: EXTRA_ROUNDS_MAX,
            is_complete: true,
            only: Vec::new(),
            pause: Duration::from_millis(20),
            seed: rand::random(),
        }
    }
}
