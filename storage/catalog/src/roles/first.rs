//! Members that roles are answered with: the first of each, as a role may be everybody's, and so many in
//! all that a page of roles ends before the one that would bring more.
//!
//! Each role's are a range of the index, cut by a limit of its own: whatever numbers the members of
//! a large role reads all of them.

use crate::entities::role_memberships::{Column, Entity};
use sea_orm::ColumnTrait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Order, Query, SelectStatement, UnionType};

/// The most members that are answered with a role.
pub(super) const MEMBERS_MAX: u64 = 1_000;
/// The most members that roles are read with at once: at most what two roles have.
const MEMBERS_OF_PAGE_MAX: u64 = 2 * MEMBERS_MAX;
/// SQLite takes no union of more than 500; unions of unions are none.
const UNITED_MAX: usize = 250;

const COLUMNS: [Column; 3] = [Column::Id, Column::RoleId, Column::JoinedAt];

/// Counts the members of a role that it is answered with, in a statement about roles.
pub(super) fn count() -> String {
    format!(
        "(SELECT COUNT(*) FROM (SELECT 1 FROM role_memberships \
         WHERE role_memberships.role_id = roles.id LIMIT {MEMBERS_MAX}) AS first)"
    )
}

/// How many roles of a list are read at once, by how many members each is answered with; at least one.
pub(super) fn fitting(counts: impl IntoIterator<Item = u64>) -> usize {
    let sums = counts.into_iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    let fit = sums.take_while(|sum| *sum <= MEMBERS_OF_PAGE_MAX).count();
    fit.max(1)
}

/// The ids of the memberships; `None` without roles.
pub(super) fn of_roles(role_ids: &[Uuid]) -> Option<SelectStatement> {
    let chunks = role_ids.chunks(UNITED_MAX);
    let some = chunks.filter_map(|chunk| Some(all_of(united(chunk.iter().map(of_role))?)));
    let mut first = Query::select();
    first
        .column(Column::Id)
        .from_subquery(united(some)?, "first");
    Some(first)
}

fn of_role(id: &Uuid) -> SelectStatement {
    let mut first = Query::select();
    first
        .columns(COLUMNS)
        .from(Entity)
        .and_where(Column::RoleId.eq(*id))
        .order_by(Column::JoinedAt, Order::Asc)
        .order_by(Column::Id, Order::Asc)
        .limit(MEMBERS_MAX);
    // SQLite wants limits of parts in a subquery.
    all_of(first)
}

fn all_of(part: SelectStatement) -> SelectStatement {
    let mut all = Query::select();
    all.columns(COLUMNS).from_subquery(part, "part");
    all
}

fn united(mut parts: impl Iterator<Item = SelectStatement>) -> Option<SelectStatement> {
    let mut first = parts.next()?;
    first.unions(parts.map(|part| (UnionType::All, part)));
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_end_before_the_one_that_brings_too_many_members() {
        let table = [
            (vec![], 1),
            (vec![0; 1_000], 1_000),
            (vec![MEMBERS_MAX; 5], 2),
            (vec![2, 999, 999, 1], 3),
            (vec![2, 999, 999, 0, 0, 1], 5),
        ];
        for (counts, expected) in table {
            assert_eq!(fitting(counts.clone()), expected, "{counts:?}");
        }
    }
}
