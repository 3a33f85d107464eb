//! MERGE statement, parsed in BigQuery's dialect.

use sqlparser::ast::{
    MergeAction, MergeInsertKind, MergeUpdateKind, SetExpr, Statement, TableFactor,
};
use sqlparser::dialect::BigQueryDialect;
use sqlparser::parser::Parser;
use std::fmt::Display;

/// Target and source of a MERGE; names are without their quotes.
pub struct Merge {
    pub target: String,
    pub stage: String,
    /// Columns with their values.
    set: Vec<(String, String)>,
    insert: Vec<(String, String)>,
}

impl Merge {
    /// Parses a statement; panics if it is no MERGE by `uuid`.
    pub fn parsed(sql: &str) -> Self {
        let statements = Parser::parse_sql(&BigQueryDialect, sql).unwrap();
        let [Statement::Merge(merge)] = statements.as_slice() else {
            panic!("{sql}")
        };
        assert_eq!(plain(&merge.on), "kept.uuid = come.uuid");
        let TableFactor::Derived { subquery, .. } = &merge.source else {
            panic!("{sql}")
        };
        let SetExpr::Select(select) = &*subquery.body else {
            panic!("{sql}")
        };
        assert!(select.qualify.is_some(), "each uuid once: {sql}");
        assert!(select.selection.is_some(), "QUALIFY needs a WHERE: {sql}");
        let mut parsed = Self {
            target: name_of(&merge.table),
            stage: name_of(&select.from[0].relation),
            set: Vec::new(),
            insert: Vec::new(),
        };
        for clause in &merge.clauses {
            match &clause.action {
                MergeAction::Update(update) => {
                    let MergeUpdateKind::Set(set) = &update.kind else {
                        panic!("{sql}")
                    };
                    let set = set.iter().map(|it| (plain(&it.target), plain(&it.value)));
                    parsed.set.extend(set);
                }
                MergeAction::Insert(insert) => {
                    let MergeInsertKind::Values(values) = &insert.kind else {
                        panic!("{sql}")
                    };
                    let values = &*values.rows[0];
                    assert_eq!(insert.columns.len(), values.len(), "{sql}");
                    let columns = insert.columns.iter().map(plain);
                    parsed.insert.extend(columns.zip(values.iter().map(plain)));
                }
                other => panic!("{other}"),
            }
        }
        parsed
    }

    /// Checks that every column of the table is set from the staging table, or else to the time,
    /// and that a stored row keeps its `uuid`.
    pub fn check(&self, table: &[String], stage: &[String]) {
        let value = |column: &String| match stage.contains(column) {
            true => format!("come.{column}"),
            false => "CURRENT_TIMESTAMP()".to_owned(),
        };
        let expected = table.iter().map(|column| (column.clone(), value(column)));
        let mut expected: Vec<_> = expected.collect();
        assert_eq!(self.insert, expected);
        expected.retain(|(column, _)| column != "uuid");
        assert_eq!(self.set, expected);
    }
}

fn name_of(table: &TableFactor) -> String {
    let TableFactor::Table { name, .. } = table else {
        panic!("{table}")
    };
    plain(name)
}

fn plain(it: &impl Display) -> String {
    it.to_string().replace('`', "")
}
