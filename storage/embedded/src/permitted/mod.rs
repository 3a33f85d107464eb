//! Statements that may be made, and functions, table functions and engines that they may name: those that stay in the
//! database.
//!
//! The lists here are of what was looked at and found to stay inside. Whatever else the engine has, it is asked at its
//! start, is refused until somebody has looked at it and listed it; an operator opens the sources by name. This is the
//! second of three walls. The first is the engine's own grants (`access`), which know no wall around the function
//! `file`, the engine `EmbeddedRocksDB` and the like; the third is the kernel (`confinement`), which does not care how a
//! statement is written.

mod calls;
mod pieces;
mod readers;
mod statements;

use std::collections::HashSet;

use crate::Source;
use crate::exception::Exception;
use crate::sql::names::{self, unescaped};

const FUNCTIONS: &str = include_str!("functions.txt");
const TABLE_FUNCTIONS: &str = include_str!("table_functions.txt");
const ENGINES: &str = include_str!("engines.txt");
/// Written like a function, a description of a disk: of any folder, or of a server's.
const DISK: &str = "disk";

/// Names of all that the engine has.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) functions: Vec<String>,
    pub(crate) table_functions: Vec<String>,
}

/// The names that are refused and those that are not; all in lower case.
#[derive(Debug)]
pub(crate) struct Permitted {
    /// Functions that are refused, wherever they are called: also in a text that is read as SQL.
    functions: HashSet<String>,
    /// Table functions that are refused.
    table_functions: HashSet<String>,
    /// Engines of tables and databases that may be named.
    engines: HashSet<String>,
    /// Functions that an operator opened; they may be told columns as a text.
    opened: HashSet<String>,
}

/// The engines of tables and databases that stay inside.
pub(crate) fn engines() -> Vec<&'static str> {
    ENGINES.split_whitespace().collect()
}

// === impl Permitted ===

impl Permitted {
    pub(crate) fn new(known: &Known, sources: &[Source]) -> Self {
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

    /// Judges rows of `VALUES`, which may be expressions. Their texts are data, and nobody reads them as SQL.
    pub(crate) fn check_rows(&self, rows: &[u8]) -> Result<(), Exception> {
        match names::without_texts(rows) {
            Some(expressions) => self.check(&expressions, &[]),
            None => self.check(rows, &[]),
        }
    }

    /// Judges a statement and the values of its parameters.
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
        let reads = readers::reads(sql, &|name| self.opened.contains(name));
        if let Some(name) = reads.unseen {
            let message = format!(
                "Not enough privileges: what {name} is given here may be read as SQL; write it down in the statement, \
                 as texts between plain quotes"
            );
            return Err(Exception::new(497, &message, "ACCESS_DENIED"));
        }
        let is_function = |name: &str| self.functions.contains(name);
        let found = calls::find(sql, &reads, &is_function);
        let found = found.or_else(|| self.in_parameters(&reads, parameters));
        let found = found.or_else(|| {
            let mut values = reads
                .sets
                .then(|| readers::values(sql))
                .into_iter()
                .flatten();
            values.find(|value| is_function(value))
        });
        let found = found.map(|name| ("function", name));
        let found = found.or_else(|| {
            let is_refused = |name: &str| self.table_functions.contains(name);
            names::call(sql, &is_refused).map(|name| ("table function", name))
        });
        let found = found.or_else(|| {
            let is_refused = |name: &str| !self.engines.contains(name);
            names::engine(sql, &is_refused).map(|name| ("engine", name))
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

    /// The first function that is refused and that a parameter's value calls or names.
    fn in_parameters(
        &self,
        reads: &readers::Reads,
        parameters: &[(String, String)],
    ) -> Option<String> {
        let is_function = |name: &str| self.functions.contains(name);
        parameters.iter().find_map(|(_, value)| {
            let name = || {
                String::from_utf8_lossy(&unescaped(value.as_bytes()))
                    .trim()
                    .to_ascii_lowercase()
            };
            let called = reads
                .texts
                .then(|| calls::find_anywhere(value.as_bytes(), &is_function));
            called
                .flatten()
                .or_else(|| reads.names.then(name).filter(|name| is_function(name)))
        })
    }
}

#[cfg(test)]
mod tests;
