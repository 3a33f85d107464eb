//! Which members are answered with roles: the first of each, as a role may be everybody's.
//!
//! Each role's are a range of the index, cut by a limit of its own: whatever numbers the members of
//! a large role reads all of them.

use crate::entities::role_memberships::{Column, Entity};
use sea_orm::ColumnTrait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, Func, Order, Query, SelectStatement, UnionType, WindowStatement};

/// The most members that are answered with a role.
const MEMBERS_MAX: u64 = 1_000;
/// The most members that are answered with all the roles of a page.
const MEMBERS_OF_PAGE_MAX: u64 = 10_000;
/// SQLite takes no union of more than 500; unions of unions are none.
const UNITED_MAX: usize = 250;

const COLUMNS: [Column; 3] = [Column::Id, Column::RoleId, Column::JoinedAt];

/// The ids of the memberships; `None` without roles. Where they are too many in all, the last of
/// the largest roles are left out.
pub(super) fn of_roles(role_ids: &[Uuid]) -> Option<SelectStatement> {
    let chunks = role_ids.chunks(UNITED_MAX);
    let some = chunks.filter_map(|chunk| Some(all_of(united(chunk.iter().map(of_role))?)));
    let mut in_role = WindowStatement::partition_by(Column::RoleId);
    in_role
        .order_by(Column::JoinedAt, Order::Asc)
        .order_by(Column::Id, Order::Asc);
    let mut numbered = Query::select();
    numbered
        .column(Column::Id)
        .expr_window_as(Func::cust("ROW_NUMBER"), in_role, "place")
        .from_subquery(united(some)?, "first");
    let mut first = Query::select();
    first
        .expr(Expr::col("id"))
        .from_subquery(numbered, "numbered")
        .order_by("place", Order::Asc)
        .limit(MEMBERS_OF_PAGE_MAX);
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
