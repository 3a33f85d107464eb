//! Batch exports below organizations and below projects.

mod access;
mod destinations;
mod histories;
mod page;
mod queries;
mod records;

use crate::Fixture;
use crate::fixture::TestResponse;
use serde_json::{Value, json};

const ORGANIZATION: &str = "/api/organizations/@current/batch_exports/";
const PROJECT: &str = "/api/projects/@current/batch_exports/";
/// Id that nothing has.
const NOBODY: &str = "01890f00-0000-7000-8000-000000000000";

fn new_export() -> Value {
    json!({
        "name": "Nightly", "interval": "hour",
        "destination": { "type": "S3", "config": {
            "bucket_name": "bucket", "region": "r", "prefix": "p",
            "aws_access_key_id": "AKIA", "aws_secret_access_key": "s3cret",
        } },
    })
}

async fn made(fixture: &Fixture, all: &str, new: &Value) -> TestResponse {
    let answer = fixture.call("POST", all, new).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

/// Creates an export; returns it and its path.
async fn export(fixture: &Fixture, all: &str) -> (Value, String) {
    let made = made(fixture, all, &new_export()).await;
    let path = format!("{all}{}/", made.body["id"].as_str().unwrap());
    (made.body, path)
}
