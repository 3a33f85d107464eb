//! FROM clause of a query.

use super::error::{QueryError, refused};
use super::names::Source;
use sqlparser::ast::{ObjectName, ObjectNamePart, TableAlias, TableFactor, TableWithJoins};

/// Table of a FROM clause, and its name in the rest of the query.
pub(super) fn source(from: &[TableWithJoins]) -> Result<(Source, &str), QueryError> {
    let one = || {
        let names = Source::ALL.map(Source::name);
        QueryError(format!("Select from one of {}.", names.join(", ")))
    };
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
    let source = named(name).ok_or_else(one)?;
    match alias {
        None => Ok((source, source.name())),
        Some(alias) => Ok((source, alias_name(alias)?)),
    }
}

fn named(name: &ObjectName) -> Option<Source> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return None;
    };
    Source::named(&name.value)
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
    // The parser would read FINAL and SAMPLE as names, too.
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

/// Words that change the meaning of a query when they follow a table.
const KEYWORDS: [&str; 6] = ["final", "sample", "array", "global", "system", "prewhere"];
