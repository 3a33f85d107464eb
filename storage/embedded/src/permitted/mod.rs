//! Checks statements: they may name only functions, table functions and engines that stay inside
//! the database.
//!
//! The lists here hold names that were reviewed and found to stay inside. At its start the engine
//! is asked for all of its names, and any that is not listed is refused until somebody has reviewed
//! it; an operator opens sources by name. This is the second of three layers. The first is the
//! engine's own grants (`access`), which do not cover the function `file`, the engine
//! `EmbeddedRocksDB` and the like; the third is the kernel (`confinement`), which does not depend
//! on how a statement is written.

mod calls;
mod indirect_sql;
mod raw_tokens;
mod statements;

use std::collections::HashSet;

use crate::Source;
use crate::exception::Exception;
use crate::sql::names::{self, unescaped};

const FUNCTIONS: &str = include_str!("functions.txt");
const TABLE_FUNCTIONS: &str = include_str!("table_functions.txt");
const ENGINES: &str = include_str!("engines.txt");
/// Definition of a disk, written like a function: of any folder, or of another server's storage.
const DISK: &str = "disk";

/// Names of all functions that the engine has.
#[derive(Debug, Default)]
pub(crate) struct EngineFunctions {
    pub(crate) functions: Vec<String>,
    pub(crate) table_functions: Vec<String>,
}

/// Rules on names, all in lower case.
#[derive(Debug)]
pub(crate) struct StatementPolicy {
    /// Functions that are refused wherever they are called, including in a literal that the engine
    /// reads as SQL.
    functions: HashSet<String>,
    /// Table functions that are refused.
    table_functions: HashSet<String>,
    /// Engines of tables and databases that may be named.
    engines: HashSet<String>,
    /// Functions that an operator opened; their columns may be given as a string.
    opened: HashSet<String>,
}

/// Lists the engines of tables and databases that stay inside.
pub(crate) fn engines() -> Vec<&'static str> {
    ENGINES.split_whitespace().collect()
}

// === impl StatementPolicy ===

impl StatementPolicy {
    pub(crate) fn new(known: &EngineFunctions, sources: &[Source]) -> Self {
        let opened: HashSet<_> = sources
            .iter()
            .flat_map(|source| source.functions())
            .map(|name| name.to_ascii_lowercase())
            .collect();
        let refused = |known: &[String], listed: &str| {
            let listed: HashSet<_> = listed
                .split_whitespace()
                .map(str::to_ascii_lowercase)
                .collect();
            let known = known.iter().map(|name| name.to_ascii_lowercase());
            known
                .filter(|name| !listed.contains(name) && !opened.contains(name))
                .collect::<HashSet<_>>()
        };
        let mut table_functions = refused(&known.table_functions, TABLE_FUNCTIONS);
        table_functions.insert(DISK.to_owned());
        let engines = engines().into_iter();
        let engines = engines.chain(sources.iter().flat_map(|source| source.engines()).copied());
        Self {
            functions: refused(&known.functions, FUNCTIONS),
            table_functions,
            engines: engines.map(str::to_ascii_lowercase).collect(),
            opened,
        }
    }

    /// Checks rows of `VALUES`, which may be expressions. Their string literals are data and never
    /// read as SQL.
    pub(crate) fn check_rows(&self, rows: &[u8]) -> Result<(), Exception> {
        match names::without_literals(rows) {
            Some(expressions) => self.check(&expressions, &[]),
            None => self.check(rows, &[]),
        }
    }

    /// Checks a statement and the values of its parameters.
    pub(crate) fn check(
        &self,
        sql: &[u8],
        parameters: &[(String, String)],
    ) -> Result<(), Exception> {
        if let Some(word) = statements::find(sql) {
            let message = format!(
                "Not enough privileges: {word} would also end what Millrace is doing; to end a statement of your own, \
                 close its connection"
            );
            return Err(Exception::new(497, &message, "ACCESS_DENIED"));
        }
        let indirect = indirect_sql::find(sql, &|name| self.opened.contains(name));
        if indirect.is_unreadable {
            let message = "Syntax error: too many dollar signs or other than plain words between typographic quotes; \
                           write texts between single quotes, and names between back quotes";
            return Err(Exception::new(62, message, "SYNTAX_ERROR"));
        }
        if let Some(name) = indirect.unchecked {
            let message = format!(
                "Not enough privileges: what {name} is given here may be read as SQL; write it down in the statement, \
                 as texts between plain quotes"
            );
            return Err(Exception::new(497, &message, "ACCESS_DENIED"));
        }
        let is_function = |name: &str| self.functions.contains(name);
        let found = calls::find(sql, &indirect, &is_function);
        let found = found.or_else(|| self.in_parameters(&indirect, parameters));
        let found = found.or_else(|| {
            let word = || indirect_sql::parameter_word(sql, &is_function);
            indirect.sets_parameters.then(word).flatten()
        });
        let found = found.map(|name| ("function", name));
        let found = found.or_else(|| {
            let is_refused = |name: &str| self.table_functions.contains(name);
            names::refused_call(sql, &is_refused).map(|name| ("table function", name))
        });
        let found = found.or_else(|| {
            let is_refused = |name: &str| !self.engines.contains(name);
            names::refused_engine(sql, &is_refused).map(|name| ("engine", name))
        });
        match found {
            None => Ok(()),
            Some((kind, name)) => Err(Exception::new(
                497,
                &format!(
                    "Not enough privileges: the {kind} {name} leads out of the database, or nobody has looked at \
                     whether it does; the operator of Millrace opens sources with clickhouse_sources"
                ),
                "ACCESS_DENIED",
            )),
        }
    }

    /// Finds the first refused function that a parameter's value calls or names.
    fn in_parameters(
        &self,
        indirect: &indirect_sql::IndirectSql,
        parameters: &[(String, String)],
    ) -> Option<String> {
        let is_function = |name: &str| self.functions.contains(name);
        parameters.iter().find_map(|(_, value)| {
            let name = || {
                String::from_utf8_lossy(&unescaped(value.as_bytes()))
                    .trim()
                    .to_ascii_lowercase()
            };
            let called = indirect
                .literals
                .then(|| calls::find_anywhere(value.as_bytes(), &is_function));
            called
                .flatten()
                .or_else(|| indirect.names.then(name).filter(|name| is_function(name)))
        })
    }
}

#[cfg(test)]
mod tests;
