//! Fake of a warehouse's tables, as far as needed to show that rows arrive once.

use serde_json::Value;
use std::collections::BTreeMap;

/// Tables by name, and the statements that were run.
#[derive(Default)]
pub struct Tables {
    pub events: BTreeMap<String, Value>,
    pub stages: BTreeMap<String, Vec<Value>>,
    pub statements: Vec<String>,
}

impl Tables {
    /// Runs a statement; returns the first value of its result.
    pub fn run(&mut self, sql: &str, rows: Option<&str>) -> Option<String> {
        self.statements.push(sql.to_owned());
        let stage = stage_of(sql);
        if sql.starts_with("CREATE OR REPLACE") {
            self.stages.insert(stage, Vec::new());
        } else if sql.starts_with("INSERT INTO") {
            let rows: Vec<Value> = serde_json::from_str(rows.unwrap()).unwrap();
            self.stages.get_mut(&stage).unwrap().extend(rows);
        } else if sql.starts_with("SELECT COUNT(*)") {
            return Some(self.stages[&stage].len().to_string());
        } else if sql.starts_with("MERGE") {
            for row in self.stages[&stage].clone() {
                let uuid = row["uuid"].as_str().unwrap().to_owned();
                self.events.insert(uuid, row);
            }
        } else if sql.starts_with("DROP TABLE") {
            self.stages.remove(&stage);
        } else if sql.starts_with("SELECT 1") {
            return Some("1".to_owned());
        } else {
            assert!(sql.starts_with("CREATE TABLE IF NOT EXISTS"), "{sql}");
        }
        None
    }
}

/// Staging table that a statement is about.
fn stage_of(sql: &str) -> String {
    let names = sql.split(['"', '`']);
    names
        .filter(|name| name.contains("_millrace_"))
        .take(1)
        .collect()
}
