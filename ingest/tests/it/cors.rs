//! CORS: the origin is mirrored everywhere, errors included.

use crate::client::TestResponse;
use crate::test_env::{TestEnv, batch};

const ORIGIN: (&str, &str) = ("Origin", "https://shop.example");

fn assert_readable(answer: &TestResponse, what: &str) {
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some(ORIGIN.1),
        "{what}"
    );
    assert_eq!(
        answer.header("access-control-allow-credentials"),
        Some("true"),
        "{what}"
    );
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("Retry-After"), "{what}: {exposed}");
    assert!(answer.header("vary").unwrap().contains("Origin"), "{what}");
}

#[test]
fn every_answer_can_be_read_by_the_page_that_asked() {
    let env = TestEnv::start();
    let mut client = env.client();
    let good = batch(&["e"]);
    let table: [(&str, &str, &str, u16); 9] = [
        ("POST", "/batch/", &good, 200),
        ("POST", "/batch/?beacon=1", &good, 204),
        ("POST", "/batch/", "{", 400),
        (
            "POST",
            "/batch/",
            r#"{"batch":[{"event":"e","distinct_id":"d"}]}"#,
            401,
        ),
        ("GET", "/elsewhere", "", 404),
        ("DELETE", "/batch/", "", 405),
        ("POST", "/batch/?compression=rar", "x", 415),
        ("POST", "/flags/", "{}", 200),
        ("GET", "/array/x/config", "", 200),
    ];
    for (method, target, body, status) in table {
        let answer = client.request(method, target, &[ORIGIN], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {target}");
        assert_readable(&answer, target);
    }
}

#[test]
fn a_503_can_be_read_with_its_retry_after() {
    let env = TestEnv::start();
    env.pipeline.close();
    let answer = env
        .client()
        .post("/e/", &[ORIGIN], batch(&["e"]).as_bytes());
    assert_eq!(answer.status, 503);
    assert_readable(&answer, "503");
    assert!(
        answer
            .header("retry-after")
            .unwrap()
            .parse::<u32>()
            .unwrap()
            > 0
    );
}

#[test]
fn a_preflight_mirrors_what_is_asked_for() {
    let env = TestEnv::start();
    let headers = [
        ORIGIN,
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "content-encoding,content-type",
        ),
    ];
    for target in ["/e/", "/batch", "/flags/?v=2", "/i/v1/analytics/events"] {
        let answer = env.client().request("OPTIONS", target, &headers, b"");
        assert_eq!(answer.status, 204, "{target}");
        assert_readable(&answer, target);
        assert!(
            answer
                .header("access-control-allow-methods")
                .unwrap()
                .contains("POST")
        );
        let allowed = answer.header("access-control-allow-headers");
        assert_eq!(allowed, Some("content-encoding,content-type"), "{target}");
        assert_eq!(
            answer.header("access-control-max-age"),
            Some("7200"),
            "{target}"
        );
    }
}

#[test]
fn without_an_origin_there_is_nothing_to_mirror() {
    let env = TestEnv::start();
    let answer = env.post("/batch/", batch(&["e"]));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
