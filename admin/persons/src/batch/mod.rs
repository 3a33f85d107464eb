//! Chooses the updates of a round: those of all projects in the order of their arrival, and of each
//! project with a backlog from its own place, so that no other project waits for it.
//!
//! Where more is waiting than a round takes, each project with more than a tenth of a round
//! waiting gets a place of its own. So do the largest projects of an organization with more than
//! that in all of them together, beside other organizations. The others have half of a round
//! first. When their changes are in ClickHouse, a part of the round that takes little time is
//! shared by the backlogs, in turns of organizations, and of the backlogs of each. So an update
//! waits for a few rounds at the most, however much another organization sends, in however many
//! projects.

mod shares;

use crate::failure::Failure;
use crate::state::{PersonBacklog, PersonProgress, PersonStore, PersonUpdate};
use crate::update_reader::{self, AppliedPosition, ProjectFilter, Range, Updates};
use millrace_catalog::{Catalog, ProjectId, UtcTime};
use millrace_clickhouse::ClickHouse;
use shares::{OverShare, over_share, statements, turns};
use std::collections::HashMap;

/// Shares of a round: a project with more than one share waiting is deferred to a backlog.
const SHARES: usize = 10;
/// Projects that have a backlog at most: each is in the statement that reads the others.
const BACKLOGS_MAX: usize = 4_000;
/// Updates of one source that stand together: if a transaction ends early, all sources had a share.
const INTERLEAVED_UPDATES: usize = 500;

/// Updates of a part of a round, by source: those of backlogs, or those of all other projects.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Updates to apply; those of a project are in their order.
    pub updates: Vec<PersonUpdate>,
    sources: Vec<Source>,
}

/// Source of updates of a round: backlogs of an organization, or all projects without one.
#[derive(Debug)]
struct Source {
    /// Projects of the backlogs; none for all projects without one.
    backlogs: Option<Vec<ProjectId>>,
    /// Number of updates of the round up to its last one.
    end: usize,
    is_cut: bool,
}

/// Outcome of choosing a round's updates of projects without a backlog.
#[derive(Debug)]
pub(crate) enum NextBatch {
    /// The updates are to be applied.
    Ready(Batch),
    /// Projects to defer to backlogs; the batch is to be applied only if that fails.
    Defer(Vec<ProjectId>, Batch),
}

/// Reads updates of projects without a backlog, up to a number of rows and of bytes, and half of
/// that while there are backlogs.
pub(crate) async fn next_of_others(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    progress: &PersonProgress,
    before: UtcTime,
    (rows_max, bytes_max): (usize, usize),
) -> Result<NextBatch, Failure> {
    let position = AppliedPosition {
        after: &progress.position,
        // Only backlogs keep the position behind for long.
        passed: progress.passed.filter(|_| !progress.backlogs.is_empty()),
    };
    let range = Range {
        projects: ProjectFilter::AllBut(&progress.backlogs, position),
        before,
    };
    let limits = if progress.backlogs.is_empty() {
        (rows_max, bytes_max)
    } else {
        (rows_max.div_ceil(2), bytes_max.div_ceil(2))
    };
    let others = update_reader::read(clickhouse, &range, limits).await?;
    let mut project_ids = Vec::new();
    if others.is_cut {
        let limits = (rows_max, bytes_max);
        let over = projects_over_share(catalog, clickhouse, &range, &others, limits).await?;
        project_ids = over.at_most(BACKLOGS_MAX.saturating_sub(progress.backlogs.len()));
    }
    let batch = Batch::of(vec![(None, others)]);
    Ok(match project_ids.is_empty() {
        true => NextBatch::Ready(batch),
        false => NextBatch::Defer(project_ids, batch),
    })
}

/// Reads updates of projects with a backlog, up to a number of rows and of bytes.
pub(crate) async fn of_backlogs(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    progress: &PersonProgress,
    before: UtcTime,
    limits: (usize, usize),
) -> Result<Batch, Failure> {
    let (waiting, done): (Vec<&PersonBacklog>, Vec<_>) = progress
        .backlogs
        .iter()
        .partition(|backlog| backlog.passed < Some(before));
    let project_ids: Vec<_> = waiting.iter().map(|backlog| backlog.project_id).collect();
    let organizations = PersonStore::new(catalog)
        .organizations_of(&project_ids)
        .await?;
    let turns = turns(waiting, &organizations);
    let mut sources = read_turns(clickhouse, &turns, before, limits).await?;
    // All that may be applied of these has been.
    let done: Vec<_> = done.iter().map(|backlog| backlog.project_id).collect();
    sources.push((Some(done), Updates::none()));
    Ok(Batch::of(sources))
}

/// Reads updates of backlogs, by turn: each has an equal part of what is left.
async fn read_turns(
    clickhouse: &ClickHouse,
    turns: &[Vec<&PersonBacklog>],
    before: UtcTime,
    mut budget: (usize, usize),
) -> Result<Vec<(Option<Vec<ProjectId>>, Updates)>, Failure> {
    let mut sources = Vec::new();
    for (turn, left) in turns.iter().zip((1..=turns.len()).rev()) {
        let mut limits = ((budget.0 / left).max(1), (budget.1 / left).max(1));
        for backlogs in statements(turn) {
            let range = Range {
                projects: ProjectFilter::Backlogs(backlogs),
                before,
            };
            let own = update_reader::read(clickhouse, &range, limits).await?;
            spend(&mut budget, &own);
            spend(&mut limits, &own);
            let has_rest = own.is_cut || limits.0 == 0 || limits.1 == 0;
            let project_ids = backlogs.iter().map(|backlog| backlog.project_id);
            sources.push((Some(project_ids.collect()), own));
            if has_rest {
                break;
            }
        }
    }
    Ok(sources)
}

fn spend(budget: &mut (usize, usize), updates: &Updates) {
    budget.0 = budget.0.saturating_sub(updates.rows.len());
    budget.1 = budget.1.saturating_sub(updates.bytes);
}

/// Chooses projects that take more than a share of a round, or whose organization does: of its
/// rows, among all that waits, or of its bytes, among what was read.
async fn projects_over_share(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    range: &Range<'_>,
    read: &Updates,
    (rows_max, bytes_max): (usize, usize),
) -> Result<OverShare, Failure> {
    let rows = update_reader::count_by_project(clickhouse, range).await?;
    let mut bytes: HashMap<ProjectId, usize> = HashMap::new();
    for update in &read.rows {
        *bytes.entry(update.project_id).or_default() += update.bytes();
    }
    let counted = rows.iter().map(|(project, _)| *project);
    let mut all: Vec<_> = counted.chain(bytes.keys().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let organizations = PersonStore::new(catalog).organizations_of(&all).await?;
    let mut over = over_share(rows, &organizations, rows_max / SHARES);
    let bytes = bytes.into_iter().collect();
    over.extend(over_share(bytes, &organizations, bytes_max / SHARES));
    Ok(over)
}

impl Batch {
    /// Interleaves updates of several sources, some of each in turn.
    fn of(read: Vec<(Option<Vec<ProjectId>>, Updates)>) -> Self {
        let mut sources = Vec::new();
        let mut waiting = Vec::new();
        for (place, (backlogs, updates)) in read.into_iter().enumerate() {
            sources.push(Source {
                backlogs,
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

    /// Returns true if more updates of a source were waiting.
    pub(crate) fn is_cut(&self) -> bool {
        self.sources.iter().any(|source| source.is_cut)
    }

    /// Returns true if all updates of projects without a backlog were applied, given the number of
    /// the batch's updates that were; so it is if the batch has none of them.
    pub(crate) fn has_all_others(&self, applied: usize) -> bool {
        let mut others = self
            .sources
            .iter()
            .filter(|source| source.backlogs.is_none());
        others.all(|source| source.is_done(applied))
    }

    /// Projects whose backlogs were applied to their ends, given the number of the batch's updates
    /// that were.
    pub(crate) fn caught_up(&self, applied: usize) -> Vec<ProjectId> {
        let done = self.sources.iter().filter(|it| it.is_done(applied));
        let projects = done.filter_map(|source| source.backlogs.as_deref());
        projects.flatten().copied().collect()
    }
}

impl Source {
    const fn is_done(&self, applied: usize) -> bool {
        !self.is_cut && self.end <= applied
    }
}
