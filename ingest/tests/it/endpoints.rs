//! Section 1: paths and methods.

use crate::rows::properties;
use crate::test_env::{KEY, TestEnv, batch, event};
use serde_json::json;

const CAPTURE: [&str; 7] = [
    "/batch",
    "/capture",
    "/e",
    "/i/v0/e",
    "/track",
    "/engage",
    "/i/v0/ai/batch",
];

#[test]
fn every_capture_path_accepts_every_shape_with_and_without_its_slash() {
    let env = TestEnv::start();
    let mut client = env.client();
    let mut single = event("single");
    single["api_key"] = KEY.into();
    let mut in_array = event("array");
    in_array["properties"]["token"] = KEY.into();
    let bodies = [
        batch(&["batch"]),
        single.to_string(),
        json!([in_array]).to_string(),
    ];
    for path in CAPTURE {
        for slash in ["", "/"] {
            for body in &bodies {
                let answer = client.post(&format!("{path}{slash}"), &[], body.as_bytes());
                assert_eq!(answer.status, 200, "{path}{slash} {body}");
                assert_eq!(answer.body, br#"{"status":"Ok"}"#);
                assert_eq!(answer.header("content-type"), Some("application/json"));
                let id = answer.header("x-request-id").unwrap();
                let id: uuid::Uuid = id.parse().unwrap();
                assert_eq!(id.get_version_num(), 7);
            }
        }
    }
    assert_eq!(env.rows().events.len(), CAPTURE.len() * 2 * bodies.len());
}

#[test]
fn an_object_without_a_name_is_an_identify_on_engage_only() {
    let env = TestEnv::start();
    let body = json!({"api_key": KEY, "distinct_id": "d", "$set": {"a": 1}}).to_string();
    assert_eq!(env.post("/engage/", &body).status, 200);
    let refused = env.post("/batch/", &body);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "missing_event")
    );
    let rows = env.rows();
    assert_eq!(rows.names(), ["$identify"]);
    assert_eq!(properties(&rows.events[0])["$set"], json!({"a": 1}));
}

#[test]
fn each_path_allows_the_methods_of_the_contract() {
    let env = TestEnv::start();
    let mut client = env.client();
    let table: [(&str, &str, u16, &str); 37] = [
        ("GET", "/batch/", 400, "empty_body"),
        ("HEAD", "/batch/", 405, ""),
        ("PUT", "/batch/", 405, "method_not_allowed"),
        ("DELETE", "/capture", 405, "method_not_allowed"),
        ("PATCH", "/e/", 405, "method_not_allowed"),
        ("BREW", "/track", 405, "method_not_allowed"),
        ("OPTIONS", "/engage", 204, ""),
        ("OPTIONS", "/i/v1/analytics/events", 204, ""),
        ("GET", "/i/v1/analytics/events", 405, "method_not_allowed"),
        ("HEAD", "/i/v1/analytics/events/", 405, ""),
        ("OPTIONS", "/i/v0/ai/batch/", 204, ""),
        ("GET", "/i/v0/ai/batch/?data=e30", 405, "method_not_allowed"),
        ("POST", "/i/v0/ai/batch", 400, "empty_body"),
        ("OPTIONS", "/i/v0/ai", 204, ""),
        ("GET", "/i/v0/ai/", 405, "method_not_allowed"),
        ("POST", "/s/?compression=gzip-js", 200, ""),
        ("OPTIONS", "/s", 204, ""),
        ("GET", "/s/", 405, "method_not_allowed"),
        ("OPTIONS", "/static/array.js", 204, ""),
        ("POST", "/static/array.js", 405, "method_not_allowed"),
        ("POST", "/array/phc_x/array.js", 405, "method_not_allowed"),
        ("GET", "/flags/?v=2", 405, "method_not_allowed"),
        ("GET", "/decide", 405, "method_not_allowed"),
        ("POST", "/flags", 200, ""),
        ("POST", "/decide/?v=3", 200, ""),
        ("GET", "/array/phc_x/config", 200, ""),
        ("HEAD", "/array/phc_x/config.js", 200, ""),
        ("POST", "/array/phc_x/config", 405, "method_not_allowed"),
        ("GET", "/_health/live", 200, ""),
        ("HEAD", "/_health/live/", 200, ""),
        ("GET", "/_health/ready", 200, ""),
        ("HEAD", "/_health/ready", 200, ""),
        ("GET", "/", 200, ""),
        ("HEAD", "/", 200, ""),
        ("POST", "/", 405, "method_not_allowed"),
        ("GET", "/elsewhere", 404, "not_found"),
        ("POST", "/batch/batch", 404, "not_found"),
    ];
    for (method, target, status, code) in table {
        let answer = client.request(method, target, &[], b"");
        assert_eq!(answer.status, status, "{method} {target}");
        if !code.is_empty() {
            assert_eq!(answer.code(), code, "{method} {target}");
        }
        assert_eq!(
            answer.header("allow").is_some(),
            status == 405 || method == "OPTIONS"
        );
    }
}

#[test]
fn allow_names_the_methods_of_the_path() {
    let env = TestEnv::start();
    let table = [
        ("/batch/", "POST, OPTIONS"),
        ("/i/v1/analytics/events", "POST, OPTIONS"),
        ("/i/v0/ai/batch/", "POST, OPTIONS"),
        ("/i/v0/ai/", "POST, OPTIONS"),
        ("/s/", "POST, OPTIONS"),
        ("/static/array.js", "GET, HEAD, OPTIONS"),
        ("/flags/", "POST, OPTIONS"),
        ("/array/x/config", "GET, HEAD, OPTIONS"),
    ];
    for (path, allow) in table {
        let answer = env.client().request("PURGE", path, &[], b"");
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
        // A method belongs to its path whenever it is named.
        let head = env.client().request("HEAD", path, &[], b"");
        let is_allowed = allow.contains("HEAD");
        assert_eq!(allow.contains("GET"), is_allowed, "{path}");
        assert_eq!(head.status != 405, is_allowed, "{path}");
        assert!(is_allowed || head.header("allow") == Some(allow), "{path}");
    }
}

#[test]
fn a_get_carries_its_payload_in_data() {
    let env = TestEnv::start();
    let mut client = env.client();
    let plain = batch(&["plain"]);
    let escaped: String = plain.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let base64 = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(batch(&["base64"]))
    };
    let base64 = base64.replace('=', "%3D").replace('+', "%2B");
    for target in [
        format!("/e/?ip=1&data={escaped}"),
        format!("/e/?data={base64}"),
        format!("/e/?data={base64}&compression=base64"),
    ] {
        assert_eq!(
            client.request("GET", &target, &[], b"").status,
            200,
            "{target}"
        );
    }
    assert_eq!(env.rows().names(), ["plain", "base64", "base64"]);
}

#[test]
fn stub_endpoints_switch_every_feature_off() {
    let env = TestEnv::start();
    let mut client = env.client();
    for target in ["/flags/?v=2", "/flags?v=4", "/decide/?v=3"] {
        let body = json!({"api_key": KEY, "distinct_id": "d"}).to_string();
        let json = client.post(target, &[], body.as_bytes()).json();
        assert_eq!(json["featureFlags"], json!({}), "{target}");
        assert_eq!(json["flags"], json!({}), "{target}");
        assert_eq!(
            json["supportedCompression"],
            json!(["gzip", "gzip-js"]),
            "{target}"
        );
        assert_eq!(json["sessionRecording"], false, "{target}");
        assert!(json.get("quotaLimited").is_none(), "{target}");
    }
    let config = client
        .request("GET", "/array/phc_t/config", &[], b"")
        .json();
    assert_eq!(config["analytics"]["endpoint"], "/i/v0/e/");
    assert_eq!(config["token"], "phc_t");
    let script = client.request("GET", "/array/phc_t/config.js", &[], b"");
    assert_eq!(
        script.header("content-type"),
        Some("application/javascript; charset=utf-8")
    );
    assert!(
        String::from_utf8(script.body)
            .unwrap()
            .contains("_POSTHOG_REMOTE_CONFIG")
    );
}

#[test]
fn session_recordings_are_acknowledged_and_not_kept() {
    let env = TestEnv::start();
    let mut client = env.client();
    let recording = crate::encodings::gzip(batch(&["$snapshot"]).as_bytes());
    for target in ["/s/?compression=gzip-js&ip=1", "/s", "/s/?beacon=1"] {
        let answer = client.post(target, &[("Content-Type", "text/plain")], &recording);
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(answer.body, br#"{"status":"Ok"}"#, "{target}");
    }
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (0, 0));
}
