//! Objects whose keys have empty parts, or parts that no request can name.

use super::faulty_proxy::{ResponseFault, pass_on, serve};
use super::object_fetch::{complaint, event, exact, fetch, fetched, on_each, staged};
use super::object_stores::Store;
use tempfile::TempDir;

#[test]
fn keys_with_empty_parts_name_objects_of_their_own() {
    let keys = ["x//a.ndjson", "x/a.ndjson", "x///a.ndjson", "x/a.ndjson/"];
    let names = ["~a.ndjson", "a.ndjson", "~~a.ndjson", "a.ndjson~"];
    on_each(exact(), |store| {
        for (number, key) in keys.iter().enumerate() {
            store.put(key, &event(number));
        }
        let home = TempDir::new().unwrap();
        let result = fetched(home.path(), &store, &store.url, "x");
        assert_eq!(result["parts_fetched"], keys.len(), "{}", store.name);
        let found = staged(home.path());
        for (number, name) in names.iter().enumerate() {
            assert_eq!(found[*name], event(number), "{name} of {}", store.name);
        }
        for prefix in ["x//a.ndjson", "x//*"] {
            let home = TempDir::new().unwrap();
            let result = fetched(home.path(), &store, &store.url, prefix);
            assert!(result["parts_fetched"].as_u64() > Some(0), "{prefix}");
        }
    });
}

/// Starts a proxy of a store whose listing shows a key with an empty part; returns its URL.
fn renaming(store: &Store) -> String {
    let server = store.url.replace("http://", "");
    serve(move |head, body| {
        let answer = pass_on(&server, head, body);
        let is_listing = head.target.contains("list-type=2");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((_, listed)) = text.split_once("\r\n\r\n").filter(|_| is_listing) else {
            return (answer, ResponseFault::None);
        };
        let listed = listed.replace("<Key>x/a.ndjson<", "<Key>x//a.ndjson<");
        let length = listed.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close");
        (
            format!("{head}\r\n\r\n{listed}").into_bytes(),
            ResponseFault::None,
        )
    })
}

#[test]
fn a_key_with_an_empty_part_is_signed_as_requested() {
    // This store checks signatures, and treats such a key as the name of the file.
    let store = Store::s3s();
    store.put("x/a.ndjson", &event(1));
    let home = TempDir::new().unwrap();
    fetched(home.path(), &store, &renaming(&store), "x");
    assert_eq!(staged(home.path())["~a.ndjson"], event(1));
}

#[test]
fn unreachable_objects_are_named_and_the_others_fetched() {
    let store = Store::google();
    for key in ["x/a.ndjson", "x/../b.ndjson", "x/./c.ndjson"] {
        store.put(key, &event(1));
    }
    let home = TempDir::new().unwrap();
    let output = fetch(home.path(), &store, &store.url, "x", &["--json"]);
    let text = complaint(&output);
    assert!(
        text.contains("2 objects left out: x/../b.ndjson, x/./c.ndjson"),
        "{text}"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains(r#""parts_fetched":1"#));
    assert_eq!(
        staged(home.path()).into_keys().collect::<Vec<_>>(),
        ["a.ndjson"]
    );
}
