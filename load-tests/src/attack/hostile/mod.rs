//! Attacks by a hostile tenant, a stranger and a hostile analyst, all at the same time.
//!
//! | File | Does |
//! |---|---|
//! | [`context`] | holds the state that all tasks share |
//! | [`capture`] | bombs, mutated bodies, image tags and unfinished requests without a key |
//! | [`sender`] | attacks with a project's key: bombs, months, persons, large and slow bodies, results |
//! | [`exports`] | costly queries, servers that hang, folders of other tenants |
//! | [`member`] | plugins that break parsers, records up to every limit, lists that nobody reads |
//! | [`names`] | terminal control characters in every field of destinations, domains and others |
//! | [`fields`] | the same in every text field of every operation's body, by the API's document |
//! | [`parameters`] | the same as value and in the name of every query parameter of that document |
//! | [`text_attempts`] | makes the requests of these two in turn |
//! | [`operations`] | every operation of the API's document, on existing records, with random bodies |
//! | [`analyst`] | statements that ClickHouse's password must not allow, and reads that it may |
//!
//! Each task sends one request after the other, with a pause: the test is about the cost of a
//! request, not about the number of requests that a machine shared with the server can send.

mod analyst;
mod capture;
mod context;
mod exports;
mod fields;
mod ids;
mod member;
mod names;
mod operations;
mod parameters;
mod sample;
mod schema_values;
mod sender;
mod tasks;
mod text_attempts;

pub(super) use context::{AttackContext, EXPORT_FOLDER, HOSTILE_TEXT};
pub use tasks::task_names;
pub(super) use tasks::unproved;

use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::sync::Arc;
use std::time::Duration;
use tasks::TASKS;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// Priority of attackers: behind all others on a shared machine.
const ATTACKERS_NICE: i32 = 15;
/// Longest time to delete exports that would go on.
const CLEAR_MAX: Duration = Duration::from_secs(30);

/// A phase of attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttackRound {
    /// Number of the round, from zero.
    pub(super) number: u32,
    pub(super) duration: Duration,
    /// True for a round beyond those asked for, as others left something unproved.
    pub(super) is_extra: bool,
}

impl AttackContext {
    /// Runs all tasks at once for the round's duration; requests in flight are then dropped, as
    /// hostile clients do. Their exports are deleted at the end, so that they do not disturb the
    /// calm.
    pub(super) fn run_round(self: &Arc<Self>, round: AttackRound) -> Result<()> {
        // Real attackers have machines of their own and take no CPU time of the server's. But what
        // else runs here may leave none to attackers behind all others.
        if !round.is_extra {
            setpriority_process(Some(gettid()), ATTACKERS_NICE).context("priority")?;
        }
        let runtime = current_thread_runtime()?;
        LocalSet::new().block_on(&runtime, async {
            let hung = exports::hanging_server().await?;
            let mut seeds = StdRng::seed_from_u64(self.seed ^ u64::from(round.number) << 32);
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
            sleep(round.duration).await;
            for task in started {
                task.abort();
            }
            if timeout(CLEAR_MAX, exports::clear(self, 0)).await.is_err() {
                self.findings.count("deleted exports", "not all in time");
            }
            Ok(())
        })
    }
}
