//! Chooses the updates of a round: those of all projects in the order of their arrival, and of each
//! project with a backlog from its own place, so that no other project waits for it.
//!
//! Where more is waiting than a round takes, each project with more than a tenth of a round waiting
//! gets a place of its own. The others have half of a round first, and what they leave of it is
//! shared by the backlogs; those that were read the longest time ago come first. So an update waits
//! for a few rounds at the most, however much another project sends.

use crate::failure::Failure;
use crate::reading::{self, ProjectFilter, Range, Updates};
use millrace_catalog::{PersonBacklog, PersonProgress, PersonUpdate, ProjectId, UtcTime};
use millrace_clickhouse::ClickHouse;
use std::collections::HashMap;

/// Shares of a round: a project with more than one share waiting is deferred to a backlog.
const SHARES: usize = 10;
/// Backlogs that are read in one round at most.
const BACKLOGS_MAX: usize = 8;
/// Updates of one source that stand together: if a transaction ends early, all sources had a share.
const INTERLEAVED_UPDATES: usize = 500;

/// Updates of a round, by source.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Updates to apply; those of a project are in their order.
    pub updates: Vec<PersonUpdate>,
    sources: Vec<Source>,
}

/// Source of updates of a round: one project's backlog, or all projects without one.
#[derive(Debug)]
struct Source {
    /// Project of the backlog; none for all projects without one.
    project: Option<ProjectId>,
    /// Number of updates of the round up to its last one.
    end: usize,
    is_cut: bool,
}

/// Outcome of choosing a round's updates.
#[derive(Debug)]
pub(crate) enum NextBatch {
    /// The updates are to be applied.
    Ready(Batch),
    /// These projects are to be deferred to backlogs; the batch is to be applied only if that
    /// fails.
    Defer(Vec<ProjectId>, Batch),
}

/// Reads updates for a round, up to a number of rows and of bytes.
pub(crate) async fn next_batch(
    clickhouse: &ClickHouse,
    progress: &PersonProgress,
    before: UtcTime,
    (rows_max, bytes_max): (usize, usize),
) -> Result<NextBatch, Failure> {
    let mut budget = (rows_max, bytes_max);
    let mut sources = Vec::new();
    if progress.passed < Some(before) {
        let range = Range {
            projects: ProjectFilter::AllBut(&progress.backlogs),
            after: &progress.position,
            // Only backlogs keep the place behind for long.
            passed: progress.passed.filter(|_| !progress.backlogs.is_empty()),
            before,
        };
        let limits = if progress.backlogs.is_empty() {
            budget
        } else {
            (budget.0.div_ceil(2), budget.1.div_ceil(2))
        };
        let others = reading::read(clickhouse, &range, limits).await?;
        if others.is_cut {
            let project_ids =
                projects_over_share(clickhouse, &range, &others, (rows_max, bytes_max)).await?;
            if !project_ids.is_empty() {
                return Ok(NextBatch::Defer(
                    project_ids,
                    Batch::of(vec![(None, others)]),
                ));
            }
        }
        spend(&mut budget, &others);
        sources.push((None, others));
    }
    let (mut waiting, done): (Vec<&PersonBacklog>, Vec<_>) = progress
        .backlogs
        .iter()
        .partition(|backlog| backlog.passed < Some(before));
    waiting.sort_unstable_by_key(|backlog| (last_read_at(backlog), backlog.project_id));
    waiting.truncate(BACKLOGS_MAX);
    for (backlog, left) in waiting.iter().zip((1..=waiting.len()).rev()) {
        let range = Range {
            projects: ProjectFilter::Only(backlog.project_id),
            after: &backlog.position,
            passed: backlog.passed,
            before,
        };
        let limits = ((budget.0 / left).max(1), (budget.1 / left).max(1));
        let own = reading::read(clickhouse, &range, limits).await?;
        spend(&mut budget, &own);
        sources.push((Some(backlog.project_id), own));
    }
    // All that may be applied of these has been.
    sources.extend(done.iter().map(|it| (Some(it.project_id), Updates::none())));
    Ok(NextBatch::Ready(Batch::of(sources)))
}

/// Time at which a backlog was last read, in microseconds. The step that applied some of it has the
/// watermark of that time as its number, or a higher one; where nothing was left, the watermark was
/// noted as passed. So a backlog without new updates has its turn, and takes no other one's.
fn last_read_at(backlog: &PersonBacklog) -> i64 {
    let passed = backlog.passed.map_or(0, |passed| passed.0);
    backlog.version.max(passed)
}

fn spend(budget: &mut (usize, usize), updates: &Updates) {
    budget.0 = budget.0.saturating_sub(updates.rows.len());
    budget.1 = budget.1.saturating_sub(updates.bytes);
}

/// Projects with more than a share of a round: of its rows, among all that waits, or of its bytes,
/// among what was read.
async fn projects_over_share(
    clickhouse: &ClickHouse,
    range: &Range<'_>,
    read: &Updates,
    (rows_max, bytes_max): (usize, usize),
) -> Result<Vec<ProjectId>, Failure> {
    let rows = rows_max / SHARES;
    let mut project_ids = reading::projects_with_more(clickhouse, range, rows).await?;
    let mut bytes: HashMap<ProjectId, usize> = HashMap::new();
    for update in &read.rows {
        *bytes.entry(update.project_id).or_default() += update.bytes();
    }
    let large = bytes.into_iter().filter(|it| it.1 > bytes_max / SHARES);
    project_ids.extend(large.map(|(project, _)| project));
    project_ids.sort_unstable();
    project_ids.dedup();
    Ok(project_ids)
}

impl Batch {
    /// Interleaves updates of several sources, some of each in turn.
    fn of(read: Vec<(Option<ProjectId>, Updates)>) -> Self {
        let mut sources = Vec::new();
        let mut waiting = Vec::new();
        for (place, (project, updates)) in read.into_iter().enumerate() {
            sources.push(Source {
                project,
                end: 0,
                is_cut: updates.is_cut,
            });
            waiting.push((place, updates.rows.into_iter()));
        }
        let mut updates = Vec::new();
        while !waiting.is_empty() {
            waiting.retain_mut(|(place, rows)| {
                let before = updates.len();
                updates.extend(rows.take(INTERLEAVED_UPDATES));
                if updates.len() == before {
                    return false;
                }
                if let Some(source) = sources.get_mut(*place) {
                    source.end = updates.len();
                }
                true
            });
        }
        Self { updates, sources }
    }

    /// Returns true if all updates of projects without a backlog were applied, given the number of
    /// the batch's updates that were.
    pub(crate) fn has_all_others(&self, applied: usize) -> bool {
        let mut others = self
            .sources
            .iter()
            .filter(|source| source.project.is_none());
        others.all(|source| source.is_done(applied))
    }

    /// Projects whose backlogs were applied to their ends, given the number of the batch's updates
    /// that were.
    pub(crate) fn caught_up(&self, applied: usize) -> Vec<ProjectId> {
        let done = self.sources.iter().filter(|it| it.is_done(applied));
        done.filter_map(|source| source.project).collect()
    }
}

impl Source {
    const fn is_done(&self, applied: usize) -> bool {
        !self.is_cut && self.end <= applied
    }
}
