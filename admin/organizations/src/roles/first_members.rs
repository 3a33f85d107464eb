//! First members, which are returned with a role. Each role has a limit, as all members may have
//! it, and a page of roles ends before the role that would exceed the limit of the page.
//!
//! The members of each role are a range of the index with a limit of its own: a window function
//! would read all members of a large role.

use millrace_catalog::entities::role_memberships::{Column, Entity};
use sea_orm::ColumnTrait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Order, Query, SelectStatement, UnionType};

/// Most members that are returned with a role.
pub(super) const MEMBERS_MAX: u64 = 1_000;
/// Most members of a page of roles: those of two full roles.
const MEMBERS_OF_PAGE_MAX: u64 = 2 * MEMBERS_MAX;
/// Most parts of one union: SQLite takes no more than 500, but unions of unions are not counted.
const UNITED_MAX: usize = 250;

const COLUMNS: [Column; 3] = [Column::Id, Column::RoleId, Column::JoinedAt];

/// SQL expression for the number of members that are returned with a role.
pub(super) fn count() -> String {
    format!(
        "(SELECT COUNT(*) FROM (SELECT 1 FROM role_memberships \
         WHERE role_memberships.role_id = roles.id LIMIT {MEMBERS_MAX}) AS first)"
    )
}

/// Number of roles that fit into a page, by the members that are returned with each; at least one.
pub(super) fn fitting(counts: impl IntoIterator<Item = u64>) -> usize {
    let sums = counts.into_iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    let fit = sums.take_while(|sum| *sum <= MEMBERS_OF_PAGE_MAX).count();
    fit.max(1)
}

/// Query for the ids of the roles' first memberships; `None` without roles.
pub(super) fn of_roles(role_ids: &[Uuid]) -> Option<SelectStatement> {
    let chunks = role_ids.chunks(UNITED_MAX);
    let some = chunks.filter_map(|chunk| Some(all_of(union_all(chunk.iter().map(of_role))?)));
    let mut first = Query::select();
    first
        .column(Column::Id)
        .from_subquery(union_all(some)?, "first");
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
    // SQLite takes the limit of a union's part only in a subquery.
    all_of(first)
}

fn all_of(part: SelectStatement) -> SelectStatement {
    let mut all = Query::select();
    all.columns(COLUMNS).from_subquery(part, "part");
    all
}

/// UNION ALL of the parts; `None` without one.
fn union_all(mut parts: impl Iterator<Item = SelectStatement>) -> Option<SelectStatement> {
    let mut first = parts.next()?;
    first.unions(parts.map(|part| (UnionType::All, part)));
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_before_the_role_that_brings_too_many_members() {
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
