//! The parts of a SELECT.

use super::expression::Scope;
use super::names::TABLES;
use super::{QueryError, refused};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, ObjectName, ObjectNamePart, Query, Select, SelectFlavor,
    SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// The SELECT of a query, all of it looked at.
pub(super) fn checked(query: Query) -> Result<Box<Select>, QueryError> {
    // Without `..`: what a newer parser adds must be decided on.
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let forbidden = [
        (with.is_some(), "WITH"),
        (order_by.is_some(), "ORDER BY: exports have no order"),
        (limit_clause.is_some(), "LIMIT: exports are whole"),
        (fetch.is_some(), "FETCH"),
        (!locks.is_empty(), "FOR UPDATE"),
        (for_clause.is_some(), "FOR"),
        (settings.is_some(), "SETTINGS"),
        (
            format_clause.is_some(),
            "FORMAT: the destination says the format",
        ),
        (!pipe_operators.is_empty(), "pipes"),
    ];
    none_of(&forbidden)?;
    let SetExpr::Select(select) = *body else {
        return Err(refused("anything but one SELECT"));
    };
    check_select(&select)?;
    Ok(select)
}

fn check_select(select: &Select) -> Result<(), QueryError> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify,
        value_table_mode,
        flavor,
    } = select;
    let forbidden = [
        (!optimizer_hints.is_empty(), "hints"),
        (
            !matches!(distinct, None | Some(Distinct::Distinct)),
            "DISTINCT ON",
        ),
        (select_modifiers.is_some(), "modifiers of SELECT"),
        (top.is_some() || *top_before_distinct, "TOP"),
        (exclude.is_some(), "EXCLUDE"),
        (into.is_some(), "INTO"),
        (!lateral_views.is_empty(), "LATERAL VIEW"),
        (prewhere.is_some(), "PREWHERE: write WHERE"),
        (!connect_by.is_empty(), "CONNECT BY"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!sort_by.is_empty(), "SORT BY"),
        (!named_window.is_empty() || *window_before_qualify, "WINDOW"),
        (qualify.is_some(), "QUALIFY"),
        (value_table_mode.is_some(), "AS STRUCT"),
        (*flavor != SelectFlavor::Standard, "FROM before SELECT"),
    ];
    none_of(&forbidden)?;
    let scope = Scope {
        source: source(from)?,
    };
    for item in projection {
        check_item(&scope, item)?;
    }
    for condition in [selection, having].into_iter().flatten() {
        scope.check(condition)?;
    }
    group(&scope, group_by)
}

fn none_of(forbidden: &[(bool, &str)]) -> Result<(), QueryError> {
    let found = forbidden.iter().find(|(is_there, _)| *is_there);
    found.map_or(Ok(()), |(_, what)| Err(refused(what)))
}

fn check_item(scope: &Scope<'_>, item: &SelectItem) -> Result<(), QueryError> {
    match item {
        SelectItem::UnnamedExpr(expr) => scope.check(expr),
        SelectItem::ExprWithAlias { expr, alias } => {
            scope.check_name(alias)?;
            scope.check(expr)
        }
        SelectItem::Wildcard(options) if *options == plain(options) => Ok(()),
        _ => Err(refused("columns by pattern; name them, or give *")),
    }
}

/// The same wildcard without anything after it.
fn plain(options: &WildcardAdditionalOptions) -> WildcardAdditionalOptions {
    WildcardAdditionalOptions {
        wildcard_token: options.wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    }
}

fn group(scope: &Scope<'_>, group_by: &GroupByExpr) -> Result<(), QueryError> {
    match group_by {
        GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => {
            let mut expressions = expressions.iter();
            expressions.try_for_each(|expression: &Expr| scope.check(expression))
        }
        _ => Err(refused("GROUP BY with modifiers")),
    }
}

/// The name that the one source is known by in the rest of the query.
fn source(from: &[TableWithJoins]) -> Result<&str, QueryError> {
    let one = || QueryError(format!("Select from one of {}.", TABLES.join(", ")));
    let [TableWithJoins { relation, joins }] = from else {
        return Err(one());
    };
    if !joins.is_empty() {
        return Err(refused("JOIN"));
    }
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return Err(one());
    };
    if !(with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty()) {
        return Err(one());
    }
    let table = table(name).ok_or_else(one)?;
    match alias {
        None => Ok(table),
        Some(alias) => alias_name(alias),
    }
}

fn table(name: &ObjectName) -> Option<&str> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return None;
    };
    TABLES.contains(&name.value.as_str()).then_some(&name.value)
}

fn alias_name(alias: &TableAlias) -> Result<&str, QueryError> {
    let TableAlias {
        explicit: _,
        name,
        columns,
        at: None,
    } = alias
    else {
        return Err(refused("AT"));
    };
    // FINAL and SAMPLE would be read as names, too.
    let is_plain = columns.is_empty()
        && name.quote_style.is_none()
        && name.value.len() <= 20
        && !KEYWORDS
            .iter()
            .any(|word| name.value.eq_ignore_ascii_case(word));
    if is_plain {
        return Ok(&name.value);
    }
    Err(refused("such a name for a table"))
}

/// Words that change the meaning of a query if they are written after a table.
const KEYWORDS: [&str; 6] = ["final", "sample", "array", "global", "system", "prewhere"];
