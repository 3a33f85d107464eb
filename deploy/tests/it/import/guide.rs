//! The migration guide's commands, run as they stand there.

use super::Stand;
use crate::readme::block_of;
use millrace_sources::Format;
use millrace_sources::testing::generate;
use std::fs::File;
use std::process::Command;

const GUIDE: &str = "deploy/migrations/README.md";

/// Runs a block of the guide in the stand's folder, with this program and this project.
fn run(stand: &Stand, name: &str) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_millrace"));
    let code = block_of(GUIDE, name, &stand.server)
        .replace("TEAM_ID", &stand.server.credential("team_id"))
        .replace("PROJECT_KEY", &stand.server.credential("project_api_key"));
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        program.parent().unwrap().display()
    );
    let output = Command::new("bash")
        .args(["-ec", &code])
        .env("PATH", path)
        .current_dir(&stand.home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {output:?}");
    text
}

/// An export as the tool writes it.
fn export(stand: &Stand, format: Format, name: &str) {
    std::fs::create_dir_all(stand.path("exports")).unwrap();
    let mut file = File::create(stand.path("exports").join(name)).unwrap();
    generate(format, 200, 7, &mut file).unwrap();
}

#[test]
fn the_guide_leads_from_approval_to_reconcile() {
    let stand = Stand::start();
    export(&stand, Format::Mixpanel, "mixpanel-2024-05-01.ndjson");
    run(&stand, "approve");
    let checked = run(&stand, "check");
    assert!(checked.contains("mixpanel"), "{checked}");
    run(&stand, "load");
    let reconciled = run(&stand, "reconcile");
    assert!(reconciled.contains("Every day and event"), "{reconciled}");
    let reported = run(&stand, "report");
    assert!(
        reported.contains(&stand.server.credential("project_api_key")),
        "{reported}"
    );
}

#[test]
fn the_guide_imports_each_source() {
    let table = [
        ("amplitude", Format::Amplitude, "amplitude.json"),
        ("segment", Format::Segment, "segment.json"),
        ("rudderstack", Format::Rudderstack, "rudderstack.json"),
        ("snowplow", Format::Snowplow, "snowplow.tsv"),
        ("google analytics", Format::GoogleAnalytics, "google.json"),
        ("csv", Format::Csv, "events.csv"),
        ("parquet", Format::Parquet, "events.parquet"),
    ];
    let stand = Stand::start();
    for (name, format, file) in table {
        export(&stand, format, file);
        let printed = run(&stand, name);
        assert!(printed.contains("events accepted"), "{name}: {printed}");
        std::fs::remove_dir_all(stand.path("exports")).unwrap();
    }
}
