//! What a round applies: updates of all projects in the order of their arrival, and of those with a
//! backlog, each from its own place, so that nobody waits for them.
//!
//! Where there is more than a round takes, whoever has more than a tenth of a round waiting gets a place
//! of its own. The others have half of a round before that, and what they leave of it is shared by the
//! backlogs, those first that were read the longest time ago. So an update waits for a few rounds at the
//! most, however much somebody else sends.

use crate::reading::{self, Of, Range, Updates};
use crate::worker::Failure;
use millrace_catalog::{PersonBacklog, PersonProgress, PersonUpdate, TeamId, UtcTime};
use millrace_clickhouse::ClickHouse;
use std::collections::HashMap;

/// A round has as many shares: whoever has more than one waiting is a backlog.
const SHARES: usize = 10;
/// Backlogs that are read in one round.
const BACKLOGS_MAX: usize = 8;
/// Updates of one source that stand together: where a transaction ends early, all had their share.
const RUN_UPDATES: usize = 500;

/// Updates of a round.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Those of a project are in their order.
    pub updates: Vec<PersonUpdate>,
    sources: Vec<Source>,
}

/// Where updates of a round are from.
#[derive(Debug)]
struct Source {
    /// None for all who have no place of their own.
    team: Option<TeamId>,
    /// Number of updates of the round up to its last one.
    end: usize,
    is_cut: bool,
}

/// What there is for a round.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// To be applied.
    Batch(Batch),
    /// Projects that should wait apart; the batch is to be applied only if they cannot.
    TooMuchOf(Vec<TeamId>, Batch),
}

/// Reads updates for a round, of so many rows and bytes.
pub(crate) async fn gather(
    clickhouse: &ClickHouse,
    progress: &PersonProgress,
    before: UtcTime,
    (rows_max, bytes_max): (usize, usize),
) -> Result<Gathered, Failure> {
    let mut room = (rows_max, bytes_max);
    let mut sources = Vec::new();
    if progress.passed < Some(before) {
        let range = Range {
            of: Of::AllBut(&progress.backlogs),
            after: &progress.place,
            // Only what waits apart keeps the place behind for long.
            passed: progress.passed.filter(|_| !progress.backlogs.is_empty()),
            before,
        };
        let limits = if progress.backlogs.is_empty() {
            room
        } else {
            (room.0.div_ceil(2), room.1.div_ceil(2))
        };
        let others = reading::read(clickhouse, &range, limits).await?;
        if others.is_cut {
            let teams = too_much_of(clickhouse, &range, &others, (rows_max, bytes_max)).await?;
            if !teams.is_empty() {
                return Ok(Gathered::TooMuchOf(teams, Batch::of(vec![(None, others)])));
            }
        }
        take(&mut room, &others);
        sources.push((None, others));
    }
    let (mut waiting, done): (Vec<&PersonBacklog>, Vec<_>) = progress
        .backlogs
        .iter()
        .partition(|backlog| backlog.passed < Some(before));
    waiting.sort_unstable_by_key(|backlog| (looked_at(backlog), backlog.team_id));
    waiting.truncate(BACKLOGS_MAX);
    for (backlog, left) in waiting.iter().zip((1..=waiting.len()).rev()) {
        let range = Range {
            of: Of::One(backlog.team_id),
            after: &backlog.place,
            passed: backlog.passed,
            before,
        };
        let limits = ((room.0 / left).max(1), (room.1 / left).max(1));
        let own = reading::read(clickhouse, &range, limits).await?;
        take(&mut room, &own);
        sources.push((Some(backlog.team_id), own));
    }
    // Nothing may be applied that is not.
    sources.extend(done.iter().map(|it| (Some(it.team_id), Updates::none())));
    Ok(Gathered::Batch(Batch::of(sources)))
}

/// Time at which a backlog was last read, in microseconds: the step that applied some of it has the watermark of
/// then as its number, or a higher one, and where nothing was left, the watermark was passed. So those
/// of which nothing comes have their turn, and no other one's.
fn looked_at(backlog: &PersonBacklog) -> i64 {
    let passed = backlog.passed.map_or(0, |passed| passed.0);
    backlog.version.max(passed)
}

fn take(room: &mut (usize, usize), updates: &Updates) {
    room.0 = room.0.saturating_sub(updates.rows.len());
    room.1 = room.1.saturating_sub(updates.bytes);
}

/// Projects with more than a share of a round: of its rows, in all that waits, or of its bytes, in
/// what was read.
async fn too_much_of(
    clickhouse: &ClickHouse,
    range: &Range<'_>,
    read: &Updates,
    (rows_max, bytes_max): (usize, usize),
) -> Result<Vec<TeamId>, Failure> {
    let rows = rows_max / SHARES;
    let mut teams = reading::projects_with_more(clickhouse, range, rows).await?;
    let mut bytes: HashMap<TeamId, usize> = HashMap::new();
    for update in &read.rows {
        *bytes.entry(update.team_id).or_default() += update.bytes();
    }
    let large = bytes.into_iter().filter(|it| it.1 > bytes_max / SHARES);
    teams.extend(large.map(|(team, _)| team));
    teams.sort_unstable();
    teams.dedup();
    Ok(teams)
}

impl Batch {
    /// Puts updates of several sources one behind the other, some of each in turn.
    fn of(read: Vec<(Option<TeamId>, Updates)>) -> Self {
        let mut sources = Vec::new();
        let mut waiting = Vec::new();
        for (place, (team, updates)) in read.into_iter().enumerate() {
            sources.push(Source {
                team,
                end: 0,
                is_cut: updates.is_cut,
            });
            waiting.push((place, updates.rows.into_iter()));
        }
        let mut updates = Vec::new();
        while !waiting.is_empty() {
            waiting.retain_mut(|(place, rows)| {
                let before = updates.len();
                updates.extend(rows.take(RUN_UPDATES));
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

    /// Whether all updates of projects without a backlog that may be applied were, where so many of the
    /// batch were.
    pub(crate) fn has_all_others(&self, applied: usize) -> bool {
        let mut others = self.sources.iter().filter(|source| source.team.is_none());
        others.all(|source| source.is_done(applied))
    }

    /// Projects with a backlog of which that is true.
    pub(crate) fn caught_up(&self, applied: usize) -> Vec<TeamId> {
        let done = self.sources.iter().filter(|it| it.is_done(applied));
        done.filter_map(|source| source.team).collect()
    }
}

impl Source {
    const fn is_done(&self, applied: usize) -> bool {
        !self.is_cut && self.end <= applied
    }
}
