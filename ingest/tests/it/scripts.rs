//! Section 1: posthog-js for pages. The files are those of the package; `make test-setup` fetches
//! it.

use crate::client::TestResponse;
use crate::test_env::TestEnv;
use std::path::Path;

const HOUR: &str = "public, max-age=3600";
const EVER: &str = "public, max-age=31536000, immutable";

/// File of the package, as npm has installed it.
fn installed(name: &str) -> Vec<u8> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/node_modules/posthog-js");
    let path = package.join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make test-setup`", path.display()))
}

fn version() -> String {
    let package: serde_json::Value = serde_json::from_slice(&installed("package.json")).unwrap();
    package["version"].as_str().unwrap().to_owned()
}

fn get(env: &TestEnv, target: &str, headers: &[(&str, &str)]) -> TestResponse {
    env.client().request("GET", target, headers, b"")
}

fn unpacked(answer: &TestResponse) -> Vec<u8> {
    let mut out = vec![0; 1 << 20];
    match answer.header("content-encoding") {
        None => answer.body.clone(),
        Some("gzip") => {
            let mut inflater = libdeflater::Decompressor::new();
            let bytes = inflater.gzip_decompress(&answer.body, &mut out).unwrap();
            out.truncate(bytes);
            out
        }
        Some("br") => {
            out.clear();
            brotli::BrotliDecompress(&mut answer.body.as_slice(), &mut out).unwrap();
            out
        }
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn scripts_are_those_of_the_package_in_every_coding() {
    let env = TestEnv::start();
    let version = version();
    let table = [
        ("/static/array.js".to_owned(), "dist/array.js", HOUR),
        ("/static/array.js?v=0.1.0".to_owned(), "dist/array.js", HOUR),
        (
            format!("/static/array.js?v={version}"),
            "dist/array.js",
            EVER,
        ),
        (format!("/static/{version}/array.js"), "dist/array.js", EVER),
        ("/array/phc_x/array.js".to_owned(), "dist/array.js", HOUR),
        (
            "/static/array.full.js".to_owned(),
            "dist/array.full.js",
            HOUR,
        ),
        (
            "/static/array.full.es5.js".to_owned(),
            "dist/array.full.es5.js",
            HOUR,
        ),
        ("/static/loader.js".to_owned(), "dist/loader.js", HOUR),
        (
            format!("/static/{version}/web-vitals.js"),
            "dist/web-vitals.js",
            EVER,
        ),
        (
            "/static/exception-autocapture.js".to_owned(),
            "dist/exception-autocapture.js",
            HOUR,
        ),
    ];
    for (target, file, kept) in table {
        let answers = ["", "gzip", "gzip, deflate, br"].map(|coding| {
            let answer = get(&env, &target, &[("Accept-Encoding", coding)]);
            assert_eq!(answer.status, 200, "{target}");
            assert!(
                unpacked(&answer) == installed(file),
                "{target} in {coding:?}"
            );
            let length = answer.body.len().to_string();
            assert_eq!(answer.header("content-length"), Some(length.as_str()));
            assert_eq!(answer.header("cache-control"), Some(kept), "{target}");
            answer.header("etag").unwrap().to_owned()
        });
        let tags = std::collections::HashSet::from(answers);
        assert_eq!(tags.len(), 3, "each coding has a tag of its own: {tags:?}");
    }
}

#[test]
fn pages_of_any_origin_may_load_a_script() {
    let env = TestEnv::start();
    let origin = "https://shop.example";
    let answer = get(&env, "/static/array.js", &[("Origin", origin)]);
    let table = [
        ("access-control-allow-origin", origin),
        ("content-type", "application/javascript; charset=utf-8"),
        ("cross-origin-resource-policy", "cross-origin"),
    ];
    for (name, value) in table {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    // A cache must not give one page the response to another.
    let alone = get(&env, "/static/array.js", &[]);
    assert_eq!(alone.header("vary"), Some("Accept-Encoding, Origin"));
}

#[test]
fn a_script_that_the_client_has_is_not_sent_again() {
    let env = TestEnv::start();
    let tag = get(&env, "/static/array.js", &[("Accept-Encoding", "br")]);
    let tag = tag.header("etag").unwrap();
    let table = [
        (tag.to_owned(), "br", 304),
        (format!("W/{tag}"), "br", 304),
        (format!("\"older\", {tag}"), "br", 304),
        ("*".to_owned(), "br", 304),
        (tag.to_owned(), "gzip", 200),
        ("\"older\"".to_owned(), "br", 200),
    ];
    for (known, coding, status) in table {
        let headers = [
            ("If-None-Match", known.as_str()),
            ("Accept-Encoding", coding),
        ];
        let answer = get(&env, "/static/array.js", &headers);
        assert_eq!(answer.status, status, "{known} in {coding}");
        assert_eq!(answer.body.is_empty(), status == 304, "{known}");
        assert_eq!(answer.header("cache-control"), Some(HOUR), "{known}");
        assert!(answer.header("etag").is_some(), "{known}");
    }
    let head = env.client().request("HEAD", "/static/array.js", &[], b"");
    let length = installed("dist/array.js").len().to_string();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some(length.as_str()))
    );
}

#[test]
fn the_licence_is_beside_the_scripts() {
    let env = TestEnv::start();
    let script = get(&env, "/static/array.js", &[]);
    assert_eq!(
        script.header("link"),
        Some("</static/LICENSE.txt>; rel=\"license\"")
    );
    let licence = get(&env, "/static/LICENSE.txt", &[]);
    assert_eq!(licence.body, installed("LICENSE"));
    assert_eq!(
        licence.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

#[test]
fn a_script_that_is_not_served_is_404_with_a_reason() {
    let env = TestEnv::start();
    for target in [
        "/static/recorder.js",
        "/static/surveys.js?v=1.449.2",
        "/static/toolbar.js",
        "/static/0.1.0/array.js",
        "/static/../array.js",
        "/static/array.js.br",
        "/static/manifest.tsv",
        "/static/",
    ] {
        let answer = get(&env, target, &[("Origin", "https://shop.example")]);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "not_found"),
            "{target}"
        );
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("https://shop.example")
        );
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(
            target == "/static/" || detail.contains(&version()),
            "{target}: {detail}"
        );
    }
}
