//! Pages in a real browser: what their HTML makes posthog-js send is what can be queried.

use crate::readme::{block_of, output};
use crate::server::Server;
use crate::tidy::root;
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// The snippet as pages have it, in short: a stub that keeps what is called until the script is there.
const SNIPPET: &str = r#"
  !function (page, posthog) {
    if (posthog.__SV) return
    window.posthog = posthog
    posthog._i = []
    posthog.__SV = 1
    posthog.init = function (key, config, name) {
      var script = page.createElement('script')
      script.async = true
      script.crossOrigin = 'anonymous'
      script.src = config.api_host + '/static/array.js'
      page.getElementsByTagName('script')[0].before(script)
      for (const method of ['capture', 'identify', 'captureException']) {
        posthog[method] = function () { posthog.push([method].concat(Array.from(arguments))) }
      }
      posthog._i.push([key, config, name])
    }
  }(document, window.posthog || [])
"#;

/// Everything that a page may switch on by itself and Millrace stores.
const EVERYTHING: &str = "capture_exceptions: true, capture_dead_clicks: true, enable_heatmaps: true, \
    capture_performance: { web_vitals: true, network_timing: true }";

fn page(script: &str) -> String {
    format!(
        "<!doctype html>\n<title>Shop</title>\n{script}\n\
         <button onclick=\"posthog.capture('clicked', {{ plan: 'team' }})\">Buy</button>\n"
    )
}

/// A page with the snippet as its head.
fn with_snippet(server: &Server, config: &str) -> String {
    let (host, key) = (
        server.credential("ingest_url"),
        server.credential("project_api_key"),
    );
    page(&format!(
        "<script>{SNIPPET}\n  posthog.init('{key}', {{ api_host: '{host}', {config} }})\n</script>"
    ))
}

/// Opens a page, clicks its button and tells what the browser saw.
fn visit(html: &str) -> Value {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, html).unwrap();
    let mut node = Command::new("node");
    node.current_dir(root().join("load-tests/clients"))
        .arg("visit.mjs")
        .args([file.as_os_str(), "clicked".as_ref()]);
    let seen: Value = serde_json::from_str(&output(&mut node)).unwrap();
    assert_eq!(seen["console"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["failed"], serde_json::json!([]), "{seen:#}");
    for request in seen["requests"].as_array().unwrap() {
        let status = request["status"].as_u64().unwrap();
        assert!(status < 300, "{seen:#}");
    }
    seen
}

/// How many events of a name can be queried, and with which library and plan.
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
fn the_snippet_sends_events_when_its_host_is_changed() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    visit(&with_snippet(&server, ""));
    server.wait_for(&stored("$pageview"), "1\tweb");
    server.wait_for(&stored("clicked"), "1\tweb\tteam");
}

#[test]
fn what_a_page_switches_on_is_loaded_from_the_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let failing = "<script>posthog.captureException(new Error('out of tea'))</script>";
    for versions in ["", "strict_script_versioning: false, "] {
        let html = with_snippet(&server, &format!("{versions}{EVERYTHING}"));
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
