//! Every list, page, log, history and thing of an organization that has all it may have, as the
//! document names them: a new operation is measured by itself, and a new list has to be filled.
//! An answer may take as long as is published, which is no test of speed.

use super::filled::Filled;
use super::http::{Answer, get};
use crate::paths::world::path_of;
use millrace_catalog::PLUGIN_SOURCE_BYTES_MAX;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};

on_both!(threads: every_answer_of_a_full_organization_is_within_its_bounds);

/// Rows that every list has at least, but for those that somebody else fills.
const ROWS_MIN: u64 = 90;
/// What the server brings along, and what no plugin can be.
const NOT_FILLED: [&str; 2] = [
    "repository",
    "pipeline_frontend_apps/exports_unsubscribe_configs",
];
/// What is around the rows of a page: its links.
const ENVELOPE_BYTES_MAX: usize = 4_096;

/// An operation that reads.
struct Read {
    template: String,
    path: String,
    answer_bytes_max: usize,
    page_bytes_max: Option<usize>,
    time_max: Duration,
}

async fn every_answer_of_a_full_organization_is_within_its_bounds() {
    let filled = Filled::start(0, |_| ()).await;
    let reads = reads(&filled).await;
    let (mut lists, mut largest, mut wrong) = (0, 0, Vec::new());
    for read in &reads {
        let found = match read.page_bytes_max {
            Some(bytes_max) => {
                lists += 1;
                pages(&filled, read, bytes_max).await
            }
            None => one(&filled, read, &read.path).await.map(|it| it.length),
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
    change_source(&filled, &reads).await;
    filled.served.stop().await;
}

/// A change of the largest source is answered with all of it, within the bound of reading it.
async fn change_source(filled: &Filled, reads: &[Read]) {
    let mut sources = reads.iter().filter(|read| read.path.ends_with("/source/"));
    let source = sources.next().unwrap();
    let path = filled
        .world
        .path("/api/organizations/:id/plugins/:id/update_source/");
    let files = json!({ "b": "" });
    let fixture = &filled.served.fixture;
    let changed = fixture.call_with(&filled.world.key, "PATCH", &path, &files);
    let changed = changed.await;
    assert_eq!(changed.status, 200);
    let length = changed.body.to_string().len();
    let lengths = PLUGIN_SOURCE_BYTES_MAX..=source.answer_bytes_max;
    assert!(lengths.contains(&length), "{length}");
    let one_more = json!({ "b": "xxxxxx" });
    let refused = fixture.call_with(&filled.world.key, "PATCH", &path, &one_more);
    assert_eq!(refused.await.status, 400);
}

/// Every operation of the document that reads and needs a key.
async fn reads(filled: &Filled) -> Vec<Read> {
    let document = get(filled.served.address, &filled.world.key, "/api/schema/").await;
    let document = document.json();
    let paths = document["paths"].as_object().unwrap().iter();
    let reads = paths.filter_map(|(template, operations)| {
        let limits = &operations.get("get")?["x-millrace-limits"];
        let is_open = operations["get"]["security"][0] == serde_json::json!({});
        let path = || path_of(template, |_, segment| filled.world.id(segment).to_owned());
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

/// One answer, or how it is not within its bounds.
async fn one(filled: &Filled, read: &Read, path: &str) -> Result<Answer, String> {
    // A test of a destination asks for its type.
    let query = if path.ends_with("/test/") {
        "?destination=S3"
    } else {
        ""
    };
    let path = format!("{path}{query}");
    let begun = Instant::now();
    let answer = get(filled.served.address, &filled.world.key, &path).await;
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

/// All pages of a list, as large as can be asked for: each within its bounds, and together every row
/// once. Answers how large the largest was, or what is wrong.
async fn pages(filled: &Filled, read: &Read, bytes_max: usize) -> Result<usize, String> {
    let base = format!("http://{}", filled.served.address);
    let mut next = Some(format!("{}?limit=1000", read.path));
    let (mut rows, mut count, mut largest) = (HashSet::new(), 0, 0);
    while let Some(path) = next {
        let answer = one(filled, read, &path).await?;
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
    }
    let is_filled = !NOT_FILLED.iter().any(|name| read.template.contains(name));
    match rows.len() as u64 {
        seen if seen != count => Err(format!("{seen} rows of {count}")),
        seen if is_filled && seen < ROWS_MIN => Err(format!("{seen} rows: fill it in `filled`")),
        _ => Ok(largest),
    }
}
