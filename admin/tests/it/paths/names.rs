//! `paths.toml` lists the operations of the document. `document` tests that the router serves the
//! same ones.

use super::table::{Table, pair};
use crate::Fixture;
use std::collections::BTreeSet;

on_both!(file_and_document_name_the_same_methods_of_the_same_paths,);

async fn file_and_document_name_the_same_methods_of_the_same_paths() {
    let fixture = Fixture::new().await;
    let document = fixture.get("/api/schema/").await.body;
    let mut documented = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if method != "parameters" {
                assert!(documented.insert(pair(method, path)), "{method} {path}");
            }
        }
    }
    let table = Table::read();
    let listed: BTreeSet<_> = table.rows.iter().map(|row| row.pair()).collect();
    assert_eq!(listed.len(), table.rows.len(), "a row is there twice");
    let missing: Vec<_> = documented.difference(&listed).collect();
    assert!(missing.is_empty(), "not in paths.toml: {missing:#?}");
    let unserved: Vec<_> = listed.difference(&documented).collect();
    assert!(unserved.is_empty(), "not served: {unserved:#?}");
}
