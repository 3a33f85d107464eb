//! Recorded requests of real SDKs, replayed as they were sent; the rows that come out are compared
//! with what the SDK meant.

use crate::client::Client;
use crate::test_env::{KEY, TestEnv};
use base64::Engine;
use jiff::Timestamp;
use millrace_rows::Micros;
use millrace_rows::testing::Event;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Recorded request.
struct Recording {
    name: String,
    json: Value,
    body: Vec<u8>,
}

impl Recording {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let json: Value = serde_json::from_str(&nulls(&hide_surrogates(&text))).unwrap();
        let body = json["body_base64"].as_str().unwrap();
        let body = base64::engine::general_purpose::STANDARD
            .decode(body)
            .unwrap();
        let name = path.strip_prefix(folder()).unwrap().display().to_string();
        Self { name, json, body }
    }

    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap()
    }

    fn received_at(&self) -> Micros {
        Micros((self.json["received_at"].as_f64().unwrap() * 1e6) as i64)
    }

    /// Bytes of the request, exactly as recorded.
    fn bytes(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\n",
            self.text("method"),
            self.text("target")
        );
        for header in self.json["headers"].as_array().unwrap() {
            let [name, value] = [&header[0], &header[1]].map(|text| text.as_str().unwrap());
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    /// Status that the contract wants.
    fn status(&self) -> u16 {
        let target = self.text("target");
        match self.text("kind") {
            // Surveys, which were on when this was recorded.
            "asset" if target.contains("surveys") => 404,
            "preflight" => 204,
            _ => 200,
        }
    }

    /// Events of the request, decoded here by other means than the server's.
    fn events(&self) -> Vec<Value> {
        let how = self.json["decoded_how"].as_array().unwrap();
        let json = how.iter().fold(self.body.clone(), |body, step| {
            undo(step.as_str().unwrap(), &body)
        });
        let value = match serde_json::from_slice::<Value>(&json) {
            Ok(value) => value,
            // Lone surrogates are no Rust strings; escape the escape to compare them as text.
            Err(_) => {
                let text = String::from_utf8(json).unwrap();
                serde_json::from_str(&hide_surrogates(&text)).unwrap()
            }
        };
        match value {
            Value::Array(events) => events,
            Value::Object(mut object) => match object.remove("batch") {
                Some(Value::Array(events)) => events,
                _ => vec![Value::Object(object)],
            },
            other => panic!("{other}"),
        }
    }
}

/// Escapes lone surrogates, so that `\ud83d` becomes `\\ud83d`: text that JSON parsers take.
fn hide_surrogates(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        hidden.push_str(before);
        let pair = surrogate(escape, "89ab") && surrogate(&escape[6..], "cdef");
        let len = if pair { 12 } else { 2 };
        if !pair && surrogate(escape, "89abcdef") {
            hidden.push('\\');
        }
        let (escape, after) = escape.split_at(len);
        hidden.push_str(escape);
        rest = after;
    }
    hidden + rest
}

/// Returns true if the text begins with `\ud` and one of these digits.
fn surrogate(text: &str, digits: &str) -> bool {
    let start = text.get(..4).unwrap_or_default().to_ascii_lowercase();
    start
        .strip_prefix("\\ud")
        .is_some_and(|digit| digits.contains(digit))
}

/// Replaces the numbers that JSON does not have by the stored `null`.
fn nulls(text: &str) -> String {
    text.replace("-Infinity", "null")
        .replace("Infinity", "null")
        .replace("NaN", "null")
}

fn undo(step: &str, body: &[u8]) -> Vec<u8> {
    let mut inflater = libdeflater::Decompressor::new();
    let mut out = vec![0; 4 << 20];
    match step {
        "gzip" => {
            let len = inflater.gzip_decompress(body, &mut out).unwrap();
            out.truncate(len);
            out
        }
        "deflate" => {
            let len = inflater.zlib_decompress(body, &mut out).unwrap();
            out.truncate(len);
            out
        }
        "form" => form_urlencoded::parse(body)
            .find(|(name, _)| name == "data")
            .map(|(_, value)| value.into_owned().into_bytes())
            .unwrap(),
        "base64" => base64::engine::general_purpose::STANDARD
            .decode(body)
            .unwrap(),
        "json" => body.to_vec(),
        // NaN and Infinity, as old Pythons write them.
        step if step.starts_with("NOT-STRICT-JSON") => {
            nulls(std::str::from_utf8(body).unwrap()).into_bytes()
        }
        other => panic!("{other}"),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sdk")
}

fn recordings() -> Vec<Recording> {
    let mut paths = Vec::new();
    for sdk in std::fs::read_dir(folder()).unwrap() {
        let sdk = sdk.unwrap().path();
        if sdk.is_dir() {
            paths.extend(
                std::fs::read_dir(sdk)
                    .unwrap()
                    .map(|file| file.unwrap().path()),
            );
        }
    }
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    paths.iter().map(|path| Recording::read(path)).collect()
}

#[test]
fn every_recording_is_answered_and_its_events_are_stored_as_they_were_meant() {
    let recordings = recordings();
    assert!(recordings.len() > 100, "{}", recordings.len());
    let mut events = 0;
    for recording in &recordings {
        // A server each: SDKs repeat uuids over recordings, and a resend is not stored.
        let env = TestEnv::with(|options| options.server.workers = 1);
        env.clock.set(recording.received_at());
        let mut client = Client::connect(env.addr);
        client.send(&recording.bytes());
        let answer = client.read();
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(
            answer.status,
            recording.status(),
            "{}: {text}",
            recording.name
        );
        if recording.text("kind") != "ingest" || answer.status != 200 {
            assert_eq!(env.rows().events.len(), 0, "{}", recording.name);
            continue;
        }
        let sent = recording.events();
        let rows = env.rows();
        assert_eq!(rows.rejected, [], "{}", recording.name);
        assert_eq!(rows.events.len(), sent.len(), "{}", recording.name);
        for (sent, row) in sent.iter().zip(ordered(rows.events, &sent)) {
            compare(recording, sent, &row);
            events += 1;
        }
    }
    assert!(events > 300, "{events}");
}

/// Brings rows into the order of the events, as rows of different months are in different sections.
fn ordered(mut rows: Vec<Event>, sent: &[Value]) -> Vec<Event> {
    let place = |row: &Event| {
        sent.iter().position(|event| match event["uuid"].as_str() {
            Some(uuid) => uuid == row.uuid.to_string(),
            None => event["event"].as_str() == Some(&row.event) && same_seq(event, row),
        })
    };
    rows.sort_by_key(|row| place(row));
    rows
}

/// Returns true if event and row have the same number, as Python 3 sends no uuids; the recordings
/// number their events.
fn same_seq(event: &Value, row: &Event) -> bool {
    let hidden = hide_surrogates(&row.properties);
    let properties: Value = serde_json::from_str(&hidden).unwrap();
    event["properties"]["seq"] == properties["seq"]
}

fn compare(recording: &Recording, sent: &Value, row: &Event) {
    let what = format!("{} {}", recording.name, sent["event"]);
    assert_eq!(row.event, sent["event"].as_str().unwrap(), "{what}");
    if let Some(uuid) = sent["uuid"].as_str() {
        assert_eq!(row.uuid.to_string(), uuid, "{what}");
    }
    let id = sent
        .get("distinct_id")
        .unwrap_or(&sent["properties"]["distinct_id"]);
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    assert_eq!(row.distinct_id, id, "{what}");
    assert_eq!(row.team_id, 1, "{what}");
    assert_eq!(row.created_at, recording.received_at(), "{what}");
    if let Some(timestamp) = sent["timestamp"].as_str() {
        let micros = timestamp.parse::<Timestamp>().unwrap().as_microsecond();
        assert_eq!(row.timestamp.0, micros, "{what} {timestamp}");
    }
    let stored: Value = serde_json::from_str(&hide_surrogates(&row.properties)).unwrap();
    let Value::Object(properties) = &sent["properties"] else {
        panic!("{what}")
    };
    for (key, value) in properties {
        assert_eq!(stored[key], *value, "{what} {key}");
    }
    for key in ["$set", "$set_once"] {
        if let Some(value) = sent.get(key).filter(|_| properties.get(key).is_none()) {
            assert_eq!(stored[key], *value, "{what} {key}");
        }
    }
}

#[test]
fn the_recordings_were_made_with_the_key_of_the_tests() {
    let recordings = recordings();
    let with_key = recordings
        .iter()
        .filter(|recording| recording.json.to_string().contains(KEY));
    assert!(with_key.count() > 100);
}
