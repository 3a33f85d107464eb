//! Shares of a round: projects and organizations over theirs, and the turns of backlogs.

use crate::state::PersonBacklog;
use millrace_catalog::ProjectId;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// Organizations whose backlogs are read in one round at most.
const TURNS_MAX: usize = 8;
/// Backlogs of an organization that are read together at most: each is a condition of the
/// statement, and a row that a transaction writes.
const TOGETHER_MAX: usize = 64;
/// Statements that read the backlogs of one organization in a round at most.
const STATEMENTS_MAX: usize = 4;
/// Backlogs that are for projects with more than a share only.
const LARGE_PLACES: usize = 1_000;

/// Projects to defer, the largest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OverShare {
    /// Projects with more than a share.
    large: Vec<ProjectId>,
    /// Projects of organizations with more than a share.
    of_large_organizations: Vec<ProjectId>,
}

impl OverShare {
    /// Adds projects that are over another share.
    pub(super) fn extend(&mut self, other: Self) {
        self.large.extend(other.large);
        self.of_large_organizations
            .extend(other.of_large_organizations);
    }

    /// Returns the projects, so many at most. Some places are for those that are over a share by
    /// themselves: nothing else keeps one of them from having a whole round.
    pub(super) fn at_most(self, max: usize) -> Vec<ProjectId> {
        let Self {
            large,
            of_large_organizations,
        } = self;
        let (mut project_ids, mut seen) = (Vec::new(), HashSet::new());
        for project_id in large {
            if project_ids.len() < max && seen.insert(project_id) {
                project_ids.push(project_id);
            }
        }
        let max = max.saturating_sub(LARGE_PLACES);
        for project_id in of_large_organizations {
            if project_ids.len() < max && seen.insert(project_id) {
                project_ids.push(project_id);
            }
        }
        project_ids
    }
}

/// Chooses the projects to defer, the largest first: those with more than a share, and of an
/// organization with more than one in all its projects the largest, until the others are within it.
/// An organization that waits alone keeps no other one waiting. The organizations are those of all
/// that waits: of what was read, one may have had it all.
pub(super) fn over_share(
    mut waiting: Vec<(ProjectId, usize)>,
    organizations: &HashMap<ProjectId, Uuid>,
    share: usize,
) -> OverShare {
    waiting.sort_unstable_by_key(|(project, amount)| (Reverse(*amount), *project));
    let mut left: HashMap<Uuid, usize> = HashMap::new();
    for (project, amount) in &waiting {
        if let Some(organization) = organizations.get(project) {
            *left.entry(*organization).or_default() += amount;
        }
    }
    let is_alone = organizations.values().collect::<HashSet<_>>().len() <= 1;
    let is_over = |(project, amount): &(ProjectId, usize)| {
        let organization = organizations.get(project);
        let left = organization.and_then(|organization| left.get_mut(organization));
        let all = left.as_ref().map_or(*amount, |left| **left);
        let is_over = *amount > share || (all > share && !is_alone);
        if let Some(left) = left.filter(|_| is_over) {
            *left = left.saturating_sub(*amount);
        }
        is_over
    };
    waiting.retain(is_over);
    let ids = |waiting: &[(ProjectId, usize)]| waiting.iter().map(|(id, _)| *id).collect();
    let (large, of_large_organizations) =
        waiting.split_at(waiting.partition_point(|(_, amount)| *amount > share));
    OverShare {
        large: ids(large),
        of_large_organizations: ids(of_large_organizations),
    }
}

/// Groups backlogs by organization, for the turns of a round: the organization that was read the
/// longest time ago comes first, and so do those of its backlogs.
pub(super) fn turns<'a>(
    mut waiting: Vec<&'a PersonBacklog>,
    organizations: &HashMap<ProjectId, Uuid>,
) -> Vec<Vec<&'a PersonBacklog>> {
    waiting.sort_unstable_by_key(|backlog| (last_read_at(backlog), backlog.project_id));
    let mut places = HashMap::new();
    // Each with the time at which the last of its backlogs was read.
    let mut turns: Vec<(i64, Vec<&PersonBacklog>)> = Vec::new();
    for backlog in waiting {
        let place = *places
            .entry(organizations.get(&backlog.project_id))
            .or_insert_with(|| {
                turns.push((0, Vec::new()));
                turns.len() - 1
            });
        if let Some((last, turn)) = turns.get_mut(place) {
            *last = last_read_at(backlog);
            if turn.len() < TOGETHER_MAX {
                turn.push(backlog);
            }
        }
    }
    // Stable: of those with the same time the order is that of their oldest backlogs.
    turns.sort_by_key(|(last, _)| *last);
    turns.truncate(TURNS_MAX);
    turns.into_iter().map(|(_, turn)| turn).collect()
}

/// Splits the backlogs of a turn by statements, to be read one after the other until one leaves
/// something: those that were read the longest time ago are apart, so that none which was read
/// since is before them. `LIMIT … BY` would do so in one statement, but have ClickHouse read each
/// backlog to its end.
pub(super) fn statements<'t, 'a>(turn: &'t [&'a PersonBacklog]) -> Vec<&'t [&'a PersonBacklog]> {
    let groups = turn.chunk_by(|one, next| last_read_at(one) == last_read_at(next));
    let mut statements: Vec<_> = groups.take(STATEMENTS_MAX - 1).collect();
    let count: usize = statements.iter().map(|statement| statement.len()).sum();
    if let Some(rest @ [_, ..]) = turn.get(count..) {
        statements.push(rest);
    }
    statements
}

/// Time at which a backlog was last read, in microseconds. The step that applied some of it has the
/// watermark of that time as its number, or a higher one; where nothing was left, the watermark was
/// noted as passed. So a backlog without new updates has its turn, and takes no other one's.
fn last_read_at(backlog: &PersonBacklog) -> i64 {
    let passed = backlog.passed.map_or(0, |passed| passed.0);
    backlog.version.max(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::UpdatePosition;
    use millrace_rows::Micros;

    /// Organizations of projects: a hundred projects each, by number.
    fn organizations(projects: impl Iterator<Item = i64>) -> HashMap<ProjectId, Uuid> {
        let of = |project: i64| Uuid::from_u128(u128::try_from(project / 100).unwrap());
        projects.map(|it| (ProjectId(it), of(it))).collect()
    }

    #[test]
    fn an_organization_over_its_share_defers_as_few_projects_as_bring_it_below() {
        let table = [
            (vec![], vec![]),
            (vec![(100, 10), (200, 10)], vec![]),
            (vec![(100, 11), (200, 1)], vec![100]),
            (vec![(100, 4), (101, 5), (102, 6), (200, 1)], vec![102]),
            (vec![(100, 9), (101, 9), (102, 9), (200, 9)], vec![100, 101]),
            // Alone it waits for nobody but itself.
            (vec![(100, 9), (101, 9), (102, 9)], vec![]),
            (vec![(100, 9), (101, 9), (102, 11)], vec![102]),
        ];
        for (waiting, expected) in table {
            let organizations = organizations(waiting.iter().map(|it| it.0));
            let rows = waiting.iter().map(|it| (ProjectId(it.0), it.1)).collect();
            let expected: Vec<_> = expected.into_iter().map(ProjectId).collect();
            let over = over_share(rows, &organizations, 10).at_most(usize::MAX);
            assert_eq!(over, expected, "{waiting:?}");
        }
    }

    #[test]
    fn an_organization_that_has_all_that_was_read_is_not_alone_where_others_wait() {
        let organizations = organizations([100, 101, 200].into_iter());
        let read = [(100, 9), (101, 9)].map(|(project, amount)| (ProjectId(project), amount));
        let over = over_share(read.to_vec(), &organizations, 10);
        assert_eq!(over.at_most(usize::MAX), [ProjectId(100)]);
    }

    #[test]
    fn a_project_that_is_gone_counts_for_itself() {
        let organizations = organizations([100, 200].into_iter());
        let rows = [(100, 6), (200, 6), (900, 9), (901, 9), (902, 11)];
        let rows = rows.map(|(project, amount)| (ProjectId(project), amount));
        let over = over_share(rows.to_vec(), &organizations, 10);
        assert_eq!(over.at_most(usize::MAX), [ProjectId(902)]);
    }

    #[test]
    fn places_are_kept_for_projects_that_are_over_a_share_by_themselves() {
        let ids = |ids: &[i64]| ids.iter().copied().map(ProjectId).collect::<Vec<_>>();
        for (places, expected) in [
            (LARGE_PLACES + 4, &[1, 2, 3, 4][..]),
            (LARGE_PLACES, &[1, 2]),
            (1, &[1]),
            (0, &[]),
        ] {
            let mut over = OverShare {
                large: ids(&[1]),
                of_large_organizations: ids(&[2, 3, 4]),
            };
            over.extend(OverShare {
                large: ids(&[1, 2]),
                of_large_organizations: ids(&[5, 6]),
            });
            assert_eq!(over.at_most(places), ids(expected), "{places}");
        }
    }

    fn backlog(project: i64, version: i64) -> PersonBacklog {
        PersonBacklog {
            project_id: ProjectId(project),
            position: UpdatePosition {
                created_at: Micros(0),
                request_id: Uuid::nil(),
                index: 0,
            },
            version,
            passed: None,
        }
    }

    #[test]
    fn backlogs_that_were_read_longer_ago_are_read_apart() {
        // Times at which the backlogs of a turn were last read, and the sizes of its statements.
        let table: [(&[i64], &[usize]); 5] = [
            (&[], &[]),
            (&[0, 0, 0], &[3]),
            (&[0, 0, 7], &[2, 1]),
            (&[1, 2, 3, 4], &[1, 1, 1, 1]),
            (&[1, 2, 2, 3, 4, 5, 6], &[1, 2, 1, 3]),
        ];
        for (versions, expected) in table {
            let backlogs: Vec<_> = versions.iter().map(|it| backlog(1, *it)).collect();
            let turn: Vec<_> = backlogs.iter().collect();
            let found: Vec<_> = statements(&turn).iter().map(|it| it.len()).collect();
            assert_eq!(found, expected, "{versions:?}");
        }
    }

    #[test]
    fn organizations_take_turns_however_many_backlogs_they_have() {
        // One with a hundred backlogs, of which two were read, and nine with one each.
        let mut backlogs: Vec<_> = (2..100).map(|it| backlog(it, 0)).collect();
        backlogs.extend([backlog(0, 50), backlog(1, 49)]);
        backlogs.extend((1..10).map(|it| backlog(it * 100, 40 + it)));
        let organizations = organizations(backlogs.iter().map(|it| it.project_id.0));
        let turns = turns(backlogs.iter().collect(), &organizations);
        let chosen: Vec<Vec<i64>> = turns
            .iter()
            .map(|turn| turn.iter().map(|it| it.project_id.0).collect())
            .collect();
        let expected: Vec<Vec<i64>> = (1..9).map(|it| vec![it * 100]).collect();
        assert_eq!(chosen, expected, "the large one was read last");
        let large = turns_of_large(&backlogs, &organizations);
        assert_eq!(large.len(), TOGETHER_MAX);
        assert_eq!(
            large.first(),
            Some(&2),
            "those that were not read come first"
        );
    }

    /// Turn of the first organization alone.
    fn turns_of_large(
        backlogs: &[PersonBacklog],
        organizations: &HashMap<ProjectId, Uuid>,
    ) -> Vec<i64> {
        let of_first = backlogs.iter().filter(|it| it.project_id.0 < 100);
        let turns = turns(of_first.collect(), organizations);
        let turn = turns.into_iter().next().unwrap();
        turn.iter().map(|it| it.project_id.0).collect()
    }
}
