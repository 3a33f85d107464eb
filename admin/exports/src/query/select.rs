//! Clauses of a SELECT: checked, and rewritten around the table that it selects from.

use super::aliases::{self, SizedExpression};
use super::error::{QueryError, refused};
use super::expression::{Writer, checked_name};
use super::from::source;
use super::names::Source;
use millrace_clickhouse::quoted_name;
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Query, Select, SelectFlavor, SelectItem, SetExpr,
    WildcardAdditionalOptions,
};

/// Rewritten query in ClickHouse's SQL, without the rows that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RewrittenQuery {
    /// Table that the query selects from.
    pub(super) source: Source,
    /// Text up to the rows.
    pub(super) head: String,
    /// Text from the rows on.
    pub(super) tail: String,
    /// True if the query aggregates rows, so that its result over half the rows differs.
    pub(super) is_aggregating: bool,
}

/// Takes the SELECT of a query; refuses all clauses around it.
pub(super) fn only_select(query: Query) -> Result<Box<Select>, QueryError> {
    // Without `..`: somebody has to decide on fields that a newer parser adds.
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
    Ok(select)
}

/// Rewrites a SELECT.
pub(super) fn rewrite(select: &Select) -> Result<RewrittenQuery, QueryError> {
    check_nothing_else(select)?;
    let (source, name) = source(&select.from)?;
    let mut parts = ExpressionWriter {
        source: name,
        all: Vec::new(),
        has_aggregates: false,
    };
    let columns: Vec<String> = select
        .projection
        .iter()
        .map(|item| parts.write(explicit_alias(item), |writer| writer.item(item)))
        .collect::<Result<_, _>>()?;
    let mut tail = format!(") AS {}", quoted_name(name));
    if let Some(condition) = &select.selection {
        let text = parts.write(None, |writer| writer.expression(condition))?;
        tail.push_str(&format!(" WHERE {text}"));
    }
    let keys = group_keys(&select.group_by)?;
    if !keys.is_empty() {
        let text = parts.write(None, |writer| writer.separated(keys, Writer::expression))?;
        tail.push_str(&format!(" GROUP BY {text}"));
    }
    if let Some(condition) = &select.having {
        let text = parts.write(None, |writer| writer.expression(condition))?;
        tail.push_str(&format!(" HAVING {text}"));
    }
    aliases::check(&parts.all)?;
    let distinct = select.distinct.as_ref().map_or("", |_| "DISTINCT ");
    Ok(RewrittenQuery {
        source,
        head: format!("SELECT {distinct}{} FROM (", columns.join(", ")),
        tail,
        is_aggregating: parts.has_aggregates
            || !keys.is_empty()
            || select.distinct.is_some()
            || select.having.is_some(),
    })
}

/// Writer of a query's expressions, which keeps their sizes.
struct ExpressionWriter<'a> {
    source: &'a str,
    all: Vec<SizedExpression>,
    has_aggregates: bool,
}

impl<'a> ExpressionWriter<'a> {
    fn write(
        &mut self,
        alias: Option<&str>,
        fill: impl FnOnce(&mut Writer<'a>) -> Result<(), QueryError>,
    ) -> Result<String, QueryError> {
        let mut writer = Writer {
            source: self.source,
            ..Writer::default()
        };
        fill(&mut writer)?;
        self.has_aggregates |= writer.has_aggregates;
        self.all.push(SizedExpression {
            alias: alias.map(str::to_owned),
            nodes: writer.nodes,
            names: writer.names,
        });
        Ok(writer.out)
    }
}

/// Refuses everything in a SELECT except columns, WHERE, GROUP BY and HAVING.
fn check_nothing_else(select: &Select) -> Result<(), QueryError> {
    // Without `..`: somebody has to decide on fields that a newer parser adds.
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
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
    none_of(&forbidden)
}

impl Writer<'_> {
    /// Writes a column of the result, with the name of [`column_name`].
    fn item(&mut self, item: &SelectItem) -> Result<(), QueryError> {
        let name = match item {
            SelectItem::UnnamedExpr(expr) => {
                self.expression(expr)?;
                match expr {
                    Expr::Identifier(_) => return Ok(()),
                    _ => quoted_name(&column_name(item)),
                }
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                self.expression(expr)?;
                checked_name(alias)?
            }
            SelectItem::Wildcard(options) if *options == plain(options) => {
                self.nodes += 1;
                self.out.push('*');
                return Ok(());
            }
            _ => return Err(refused("columns by pattern; name them, or give *")),
        };
        self.out.push_str(&format!(" AS {name}"));
        Ok(())
    }
}

/// Alias that the customer gave a column.
fn explicit_alias(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
        _ => None,
    }
}

/// Name of a column in the result.
pub(super) fn column_name(item: &SelectItem) -> String {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.value.clone(),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names
            .last()
            .map_or_else(String::new, |name| name.value.clone()),
        other => other.to_string(),
    }
}

fn none_of(forbidden: &[(bool, &str)]) -> Result<(), QueryError> {
    let found = forbidden.iter().find(|(is_there, _)| *is_there);
    found.map_or(Ok(()), |(_, what)| Err(refused(what)))
}

/// Copy of a wildcard without its options.
fn plain(options: &WildcardAdditionalOptions) -> WildcardAdditionalOptions {
    WildcardAdditionalOptions {
        wildcard_token: options.wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    }
}

/// Keys of a GROUP BY.
fn group_keys(group_by: &GroupByExpr) -> Result<&[Expr], QueryError> {
    match group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => Ok(keys),
        _ => Err(refused("GROUP BY with modifiers")),
    }
}
