//! Pages in a real browser: the events that posthog-js sends can be queried.

use crate::readme::{block_of, output};
use crate::server::Server;
use crate::tidy::root;
use serde_json::{Value, json};
use std::process::Command;
use tempfile::TempDir;

/// Features that a page can switch on and Millrace stores.
const EVERYTHING: [(&str, bool); 3] = [
    ("capture_exceptions", true),
    ("capture_dead_clicks", true),
    ("enable_heatmaps", true),
];

/// Options with all features switched on.
fn everything(versions: &Value) -> Value {
    let mut options = versions.clone();
    for (name, value) in EVERYTHING {
        options[name] = value.into();
    }
    options["capture_performance"] = json!({"web_vitals": true, "network_timing": true});
    options
}

fn page(script: &str) -> String {
    format!(
        "<!doctype html>\n<title>Shop</title>\n{script}\n\
         <button onclick=\"posthog.capture('clicked', {{ plan: 'team' }})\">Buy</button>\n"
    )
}

/// Builds a page with PostHog's own snippet, for this server and with these options.
fn with_snippet(server: &Server, options: &Value) -> String {
    let mut node = clients("snippet.mjs");
    node.args([
        server.credential("ingest_url"),
        server.credential("project_api_key"),
        options.to_string(),
    ]);
    let snippet = output(&mut node);
    // The script is loaded from the host, once PostHog's name for such hosts is replaced.
    for part in ["-assets.i.posthog.com", "/static/array.js", "(stub)"] {
        assert!(snippet.contains(part), "{part}: {snippet}");
    }
    page(&snippet)
}

/// Command that runs a script of the clients' folder.
fn clients(script: &str) -> Command {
    let mut node = Command::new("node");
    node.current_dir(root().join("load-tests/clients"))
        .arg(script);
    node
}

/// Opens a page and clicks its button; returns the browser's requests and console.
fn visit(html: &str) -> Value {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, html).unwrap();
    let mut node = clients("visit.mjs");
    node.args([file.as_os_str(), "clicked".as_ref()]);
    let seen: Value = serde_json::from_str(&output(&mut node)).unwrap();
    assert_eq!(seen["console"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["failed"], serde_json::json!([]), "{seen:#}");
    for request in seen["requests"].as_array().unwrap() {
        let status = request["status"].as_u64().unwrap();
        assert!(status < 300, "{seen:#}");
    }
    seen
}

/// Query for the number of events of a name, their library and plan.
fn stored(event: &str) -> String {
    format!(
        "SELECT count(), any(JSONExtractString(properties, '$lib')), max(JSONExtractString(properties, 'plan')) \
         FROM millrace.events WHERE event = '{event}'"
    )
}

#[test]
fn the_html_of_the_readme_sends_events() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let key = server.credential("project_api_key");
    let html = block_of("README.md", "html", &server).replace("phc_…", &key);
    assert!(html.contains(&key), "{html}");
    visit(&page(&html));
    server.wait_for(&stored("$pageview"), "1\tweb");
    server.wait_for(&stored("clicked"), "1\tweb\tteam");
    server.wait_for(&stored("signed up"), "1\tweb\tteam");
}

#[test]
fn the_snippet_of_posthog_sends_events_when_its_host_is_changed() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    // Calls before the script is loaded wait in the snippet's stubs.
    let early = "<script>
        posthog.register({ plan: 'solo' })
        posthog.identify('user 1')
        posthog.people.set({ name: 'Ann' })
        posthog.capture('early')
    </script>";
    let html = with_snippet(&server, &json!({}));
    let seen = visit(&format!("{html}{early}"));
    let scripts = seen["requests"].as_array().unwrap().iter();
    let urls = scripts.map(|request| request["url"].as_str().unwrap());
    let ours = server.credential("ingest_url");
    assert!(
        urls.clone()
            .any(|url| url == format!("{ours}/static/array.js"))
    );
    // All requests but that for the page go to this server.
    for url in urls {
        let is_page = url.starts_with("http://127.0.0.1:") && url.ends_with('/');
        assert!(is_page || url.starts_with(&ours), "{url}");
    }
    server.wait_for(&stored("$pageview"), "1\tweb\tsolo");
    server.wait_for(&stored("early"), "1\tweb\tsolo");
    server.wait_for(&stored("clicked"), "1\tweb\tteam");
    let person = "SELECT JSONExtractString(person_properties, 'name') \
        FROM millrace.events_with_persons WHERE event = 'clicked' AND distinct_id = 'user 1'";
    server.wait_for(person, "Ann");
}

#[test]
fn scripts_that_a_page_switches_on_are_loaded_from_the_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let failing = "<script>addEventListener('load', () => \
        posthog.captureException(new Error('out of tea')))</script>";
    for versions in [json!({}), json!({"strict_script_versioning": false})] {
        let html = with_snippet(&server, &everything(&versions));
        let seen = visit(&format!("{html}{failing}"));
        let loaded = |name: &str| {
            let requests = seen["requests"].as_array().unwrap();
            let urls = requests.iter().map(|it| it["url"].as_str().unwrap());
            urls.filter(|url| url.contains("/static/") && url.contains(name))
                .count()
        };
        for name in [
            "exception-autocapture.js",
            "dead-clicks-autocapture.js",
            "web-vitals",
        ] {
            assert_eq!(loaded(name), 1, "{name}: {seen:#}");
        }
    }
    server.wait_for(&stored("$exception"), "2\tweb");
}
