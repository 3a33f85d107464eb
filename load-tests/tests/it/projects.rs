//! Runs with several projects.

use crate::scripted::{OK, scripted};
use millrace_load::keys::Keys;
use millrace_load::ledger::AckLedger;
use millrace_load::{Plan, run};

#[test]
fn requests_go_to_the_projects_in_turn_and_all_are_in_the_ledger() {
    let (url, thread) = scripted(vec![OK; 6]);
    let dir = tempfile::tempdir().unwrap();
    let mut plan = Plan::new(&url, "").with_requests(6);
    plan.keys = Keys::new(["phc_a", "phc_longer", "phc_b"].map(str::to_owned).to_vec());
    plan.connections = 1;
    plan.batch_events = 2;
    plan.ledger = Some(dir.path().join("ledger"));
    plan.run_id = Some(3);
    let summary = run(&plan).unwrap();

    let keys: Vec<_> = thread.join().unwrap().into_iter().map(key).collect();
    let round = ["phc_a", "phc_longer", "phc_b"];
    assert_eq!(keys, [round, round].concat());
    assert!(summary.to_string().contains("3 projects"), "{summary}");
    let ledger = AckLedger::read(&dir.path().join("ledger")).unwrap();
    assert_eq!(ledger.runs[&3].acknowledged_events(), 12);
}

/// Project key in a request.
fn key(request: Vec<u8>) -> String {
    let request = String::from_utf8(request).unwrap();
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["api_key"].as_str().unwrap().to_owned()
}
