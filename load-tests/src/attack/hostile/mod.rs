//! Attacks by a hostile tenant, a stranger and a hostile analyst, all at the same time.
//!
//! | File | Does |
//! |---|---|
//! | [`context`] | holds the state that all tasks share |
//! | [`capture`] | bombs, mutated bodies, image tags and unfinished requests without a key |
//! | [`sender`] | attacks with a project's key: bombs, large and slow bodies, results |
//! | [`history`] | events of hundreds of months, and imports of them |
//! | [`people`] | made-up persons, merges of persons, large groups |
//! | [`exports`] | costly queries, servers that hang, folders of other tenants |
//! | [`full_exports`] | an organization with as many exports as it may have, which run in turn |
//! | [`mails`] | invitations by mail, up to their limits |
//! | [`health`] | pages of the health listener again and again |
//! | [`member`] | plugins that break parsers, records up to every limit, lists that nobody reads |
//! | [`names`] | terminal control characters in every field of destinations, domains and others |
//! | [`fields`] | the same in every text field of every operation's body, by the API's document |
//! | [`parameters`] | the same as value and in the name of every query parameter of that document |
//! | [`text_attempts`] | makes the requests of these two in turn |
//! | [`operations`] | every operation of the API's document, on existing records, with random bodies |
//! | [`analyst`] | statements that ClickHouse's password must not allow, and all that it may: memory, unread answers, slow bodies, forms |
//!
//! Each task sends one request after the other, with a pause: the test is about the cost of a
//! request, not about the number of requests that a machine shared with the server can send.

mod analyst;
mod capture;
mod context;
mod exports;
mod fields;
mod full_exports;
mod health;
mod history;
mod ids;
mod mails;
mod member;
mod names;
mod operations;
mod parameters;
mod people;
mod sample;
mod schema_values;
mod sender;
mod tasks;
mod text_attempts;

pub(super) use context::{AttackContext, EXPORT_FOLDER};
pub use operations::CostlyOperation;
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
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Priority of attackers: behind all others on a shared machine.
const ATTACKERS_NICE: i32 = 15;
/// Time for which the last requests of tasks that are awaited may go on after an attack: a little
/// longer than the API promises, so that one that is too late is seen as such.
const LAST_ANSWERS: Duration = Duration::from_secs(32);
/// Tasks that send events of many months.
pub(super) const MONTHS_TASKS: [&str; 2] = ["months", "imports"];
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
    /// Tasks of the round; empty for all.
    pub(super) tasks: &'static [&'static str],
}

impl AttackContext {
    /// Runs all tasks at once for the round's duration; requests in flight are then dropped, as
    /// hostile clients do, but for those whose times are judged. Their exports are deleted at the
    /// end, so that they do not disturb the calm.
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
            self.set_ending(false);
            self.set_extra(round.is_extra);
            let (mut dropped, mut awaited) = (Vec::new(), Vec::new());
            for task in TASKS {
                for _ in 0..task.times {
                    let rng = StdRng::seed_from_u64(seeds.random());
                    let is_of_round = round.tasks.is_empty() || round.tasks.contains(&task.name);
                    if is_of_round && self.is_wanted(task.name) {
                        let begun = (task.start)(Arc::clone(self), rng, hung);
                        let begun = tokio::task::spawn_local(begun);
                        match task.is_awaited {
                            true => awaited.push(begun),
                            false => dropped.push(begun),
                        }
                    }
                }
            }
            sleep(round.duration).await;
            self.set_ending(true);
            for task in dropped {
                task.abort();
            }
            until_answered(awaited, LAST_ANSWERS).await;
            if timeout(CLEAR_MAX, exports::clear(self, 0)).await.is_err() {
                self.findings.count("deleted exports", "not all in time");
            }
            Ok(())
        })
    }
}

/// Waits for tasks that end by themselves, and drops those that do not in time.
async fn until_answered(tasks: Vec<JoinHandle<()>>, longest: Duration) {
    let deadline = Instant::now() + longest;
    for mut task in tasks {
        if timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_task_that_is_awaited_ends_by_itself_or_is_dropped() {
        /// Counts when it is dropped.
        struct Counted(Rc<Cell<u32>>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let runtime = current_thread_runtime().unwrap();
        let (ended, given_up) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (ends, stays) = (Counted(Rc::clone(&ended)), Counted(Rc::clone(&given_up)));
        LocalSet::new().block_on(&runtime, async {
            let ends = tokio::task::spawn_local(async move {
                sleep(Duration::from_millis(1)).await;
                drop(ends);
            });
            let stays = tokio::task::spawn_local(async move {
                sleep(Duration::from_secs(60)).await;
                drop(stays);
            });
            let began = Instant::now();
            until_answered(vec![ends, stays], Duration::from_secs(2)).await;
            assert_eq!(ended.get(), 1);
            assert!(began.elapsed() < Duration::from_secs(30));
        });
        assert_eq!(given_up.get(), 1);
    }
}
