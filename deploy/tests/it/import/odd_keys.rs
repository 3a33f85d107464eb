//! Objects whose keys have empty parts, or parts that no request can have.

use super::objects::{complaint, event, fetch, fetched, staged};
use super::stores::Store;
use super::wire::{Mishap, pass_on, serve};
use tempfile::TempDir;

#[test]
fn keys_with_empty_parts_are_those_of_other_objects() {
    let keys = ["x//a.ndjson", "x/a.ndjson", "x///a.ndjson", "x/a.ndjson/"];
    let names = ["~a.ndjson", "a.ndjson", "~~a.ndjson", "a.ndjson~"];
    for store in [Store::moto(), Store::azurite(), Store::google()] {
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
    }
}

/// A store in front of another one, which says that a key has an empty part.
fn renaming(store: &Store) -> String {
    let server = store.url.replace("http://", "");
    serve(move |head, body| {
        let answer = pass_on(&server, head, body);
        let is_listing = head.target.contains("list-type=2");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((_, listed)) = text.split_once("\r\n\r\n").filter(|_| is_listing) else {
            return (answer, Mishap::None);
        };
        let listed = listed.replace("<Key>x/a.ndjson<", "<Key>x//a.ndjson<");
        let length = listed.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close");
        (format!("{head}\r\n\r\n{listed}").into_bytes(), Mishap::None)
    })
}

#[test]
fn a_key_with_an_empty_part_is_signed_as_it_is_asked_for() {
    // It looks at signatures, and takes such a name for that of the file.
    let store = Store::s3s();
    store.put("x/a.ndjson", &event(1));
    let home = TempDir::new().unwrap();
    fetched(home.path(), &store, &renaming(&store), "x");
    assert_eq!(staged(home.path())["~a.ndjson"], event(1));
}

#[test]
fn objects_that_no_request_can_ask_for_are_named_and_the_others_fetched() {
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
