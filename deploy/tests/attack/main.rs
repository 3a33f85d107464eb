//! All known attacks at once, beside an honest tenant: no process ends, no answer is wrong, no
//! event is lost. `make attack` does the same for an hour, and checks response times, too.
//!
//! In a binary of its own, as it takes all that a machine has: beside other tests each waits for
//! the other. It is repeated while a task or a service has no proof yet
//! (`Options::extra_rounds_max`), so that load alone fails nothing.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use millrace_load::Stop;
use millrace_load::attack::{Options, attack, corpus_in};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Seed of the bodies, which are equal in every run; their order differs all the same.
const SEED: u64 = 20_261_123;
/// Encodings of bombs, each of which must be rejected.
const BOMBS: [&str; 8] = [
    "br",
    "gzip",
    "zstd",
    "deflate",
    "base64",
    "lz64",
    "form of gzip",
    "parts of br",
];

#[test]
fn an_attack_costs_other_tenants_nothing_but_time() {
    let dir = TempDir::new().unwrap();
    let server = env!("CARGO_BIN_EXE_millrace").into();
    let corpus = corpus_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let options = Options {
        calm: Duration::from_secs(10),
        attack: Duration::from_secs(30),
        rounds: 1,
        // As many as a minute has time for.
        exports: 10,
        // They are for times, which are not checked here.
        months: Duration::ZERO,
        // A minute is too short for each operation and field.
        is_complete: false,
        seed: SEED,
        ..Options::new(server, dir.path().to_owned(), corpus, 1)
    };
    let report = attack(&options, &Stop::default(), &|text| println!("{text}")).unwrap();
    println!("{report}");
    if !report.is_right() {
        println!("kept: {}", dir.keep().display());
        panic!("{report}");
    }
    // The conditions of `is_right` by name: each attack was processed and not merely shed, and the
    // honest tenant was served.
    assert_eq!(report.unproved, <[String; 0]>::default(), "{report}");
    assert_eq!(report.unserved(), <[&str; 0]>::default(), "{report}");
    for way in BOMBS {
        let refused = format!("{way}: ");
        let outcomes = &report.outcomes["bombs without a key, by encoding"];
        let is_rejected = |it: &String| {
            let status = it.strip_prefix(&refused);
            status.is_some_and(|status| ["400", "401", "413"].contains(&status))
        };
        assert!(outcomes.keys().any(is_rejected), "{way}: {report}");
    }
    assert!(
        !report.slowest_operations.is_empty(),
        "operations take time: {report}"
    );
}
