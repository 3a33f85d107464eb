//! Measures every list, page, log and resource of a full organization, as the document names
//! them. A new operation is measured without changes here; a new list must be filled in
//! `full_organization`. A response may take as long as its published bound: this is no test of
//! speed.

use super::full_organization::FullOrganization;
use super::http::{RawResponse, get};
use crate::paths::sample::path_of;
use millrace_organizations::PLUGIN_SOURCE_BYTES_MAX;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};

on_both!(threads: every_response_of_a_full_organization_is_within_its_bounds);

/// Least rows of every list, except those in [`NOT_FILLED`].
const ROWS_MIN: u64 = 90;
/// Lists that cannot be filled: the built-in catalogue, exports of front-end apps, and sessions, of
/// which a user has 20 at most.
const NOT_FILLED: [&str; 3] = [
    "repository",
    "/api/sessions",
    "pipeline_frontend_apps/exports_unsubscribe_configs",
];
/// Pages of a list that are read on PostgreSQL. Sizes are those of SQLite, where all are read, and
/// that far pages have the right rows is the catalog's to test. `MILLRACE_ALL_PAGES` reads all, as
/// in `make torture-schema`.
const POSTGRES_PAGES_MAX: usize = 3;
/// Size limit of a page without its rows: its links.
const ENVELOPE_BYTES_MAX: usize = 4_096;

fn are_all_pages_read() -> bool {
    std::env::var_os("MILLRACE_ALL_PAGES").is_some()
}

/// A `GET` operation with its published bounds.
struct Read {
    template: String,
    path: String,
    answer_bytes_max: usize,
    page_bytes_max: Option<usize>,
    time_max: Duration,
}

async fn every_response_of_a_full_organization_is_within_its_bounds() {
    let full = FullOrganization::start(0, |_| ()).await;
    let reads = reads(&full).await;
    let (mut lists, mut largest, mut wrong) = (0, 0, Vec::new());
    for read in &reads {
        let found = match read.page_bytes_max {
            Some(bytes_max) => {
                lists += 1;
                pages(&full, read, bytes_max).await
            }
            None => one(&full, read, &read.path).await.map(|it| it.length),
        };
        match found {
            Ok(length) => largest = largest.max(length),
            Err(why) => wrong.push(format!("{}: {why}", read.template)),
        }
    }
    println!(
        "{} operations, {lists} lists; the largest answer has {largest} bytes",
        reads.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(lists >= 30, "{lists} lists");
    // Otherwise nothing was filled.
    assert!(largest > PLUGIN_SOURCE_BYTES_MAX, "{largest}");
    change_source(&full, &reads).await;
    full.server.stop().await;
}

/// Checks that a change of the largest source returns all of it, within the bound of reading it.
async fn change_source(full: &FullOrganization, reads: &[Read]) {
    let mut sources = reads.iter().filter(|read| read.path.ends_with("/source/"));
    let source = sources.next().unwrap();
    let path = full
        .data
        .path("/api/organizations/:id/plugins/:id/update_source/");
    let files = json!({ "b": "" });
    let fixture = &full.server.fixture;
    let changed = fixture.call_with(&full.data.key, "PATCH", &path, &files);
    let changed = changed.await;
    assert_eq!(changed.status, 200);
    let length = changed.body.to_string().len();
    let lengths = PLUGIN_SOURCE_BYTES_MAX..=source.answer_bytes_max;
    assert!(lengths.contains(&length), "{length}");
    let one_more = json!({ "b": "xxxxxx" });
    let refused = fixture.call_with(&full.data.key, "PATCH", &path, &one_more);
    assert_eq!(refused.await.status, 400);
}

/// Lists every `GET` operation of the document that needs a key.
async fn reads(full: &FullOrganization) -> Vec<Read> {
    let document = get(full.server.address, &full.data.key, "/api/schema/").await;
    let document = document.json();
    let paths = document["paths"].as_object().unwrap().iter();
    let reads = paths.filter_map(|(template, operations)| {
        let limits = &operations.get("get")?["x-millrace-limits"];
        let is_open = operations["get"]["security"][0] == serde_json::json!({});
        let path = || path_of(template, |_, segment| full.data.id(segment).to_owned());
        (!is_open).then(|| Read {
            template: template.clone(),
            path: path(),
            answer_bytes_max: bytes(&limits["answer_bytes_max"]).unwrap(),
            page_bytes_max: bytes(&limits["page_bytes_max"]),
            time_max: Duration::from_secs(limits["seconds_max"].as_u64().unwrap()),
        })
    });
    reads.collect()
}

fn bytes(limit: &Value) -> Option<usize> {
    limit.as_u64()?.try_into().ok()
}

/// Requests one response; the error says which bound it exceeds.
async fn one(full: &FullOrganization, read: &Read, path: &str) -> Result<RawResponse, String> {
    // A test of a destination asks for its type.
    let query = if path.ends_with("/test/") {
        "?destination=S3"
    } else {
        ""
    };
    let path = format!("{path}{query}");
    let begun = Instant::now();
    let answer = get(full.server.address, &full.data.key, &path).await;
    let took = begun.elapsed();
    let is_within = answer.length <= read.answer_bytes_max && took <= read.time_max;
    match answer.status == 200 && is_within {
        true => Ok(answer),
        false => {
            let (status, length) = (answer.status, answer.length);
            Err(format!("{status} of {length} bytes after {took:?}"))
        }
    }
}

/// Reads the pages of a list, with the highest limit: each must be within its bounds, and together
/// they must have every row once. Returns the size of the largest page; the error says what is
/// wrong.
async fn pages(full: &FullOrganization, read: &Read, bytes_max: usize) -> Result<usize, String> {
    let base = format!("http://{}", full.server.address);
    let pages_max = match full.server.fixture.database().is_sqlite() || are_all_pages_read() {
        true => usize::MAX,
        false => POSTGRES_PAGES_MAX,
    };
    let mut pages = 0;
    let mut next = Some(format!("{}?limit=1000", read.path));
    let (mut rows, mut count, mut largest) = (HashSet::new(), 0, 0);
    while let Some(path) = next {
        let answer = one(full, read, &path).await?;
        let page = answer.json();
        let results = page["results"].as_array().unwrap();
        largest = largest.max(answer.length);
        if answer.length > bytes_max + ENVELOPE_BYTES_MAX {
            let rows = results.len();
            return Err(format!("{} bytes in {rows} rows", answer.length));
        }
        count = page["count"].as_u64().unwrap();
        for row in results {
            if !rows.insert(row.to_string()) {
                return Err(format!("{} comes twice", row["id"]));
            }
        }
        next = match &page["next"] {
            Value::String(next) => Some(next.strip_prefix(&base).unwrap().to_owned()),
            _ => None,
        };
        if next.is_some() && results.is_empty() {
            return Err("stands still".to_owned());
        }
        pages += 1;
        if next.is_some() && pages == pages_max {
            return Ok(largest);
        }
    }
    let is_filled = !NOT_FILLED.iter().any(|name| read.template.contains(name));
    match rows.len() as u64 {
        seen if seen != count => Err(format!("{seen} rows of {count}")),
        seen if is_filled && seen < ROWS_MIN => {
            Err(format!("{seen} rows: fill it in `full_organization`"))
        }
        _ => Ok(largest),
    }
}
