//! Tests of inserts: one part or nothing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use millrace_embedded::testing::{TestEngine, shared};

use crate::client::{curl, post, query};

const COLUMNS: &str = "(id, month, payload)";

/// Creates a table with the settings of the product's tables.
fn table(name: &str) -> String {
    let engine = shared();
    query(engine, &format!("DROP TABLE IF EXISTS default.{name}"));
    query(
        engine,
        &format!(
            "CREATE TABLE default.{name} (id UInt64, month Date, payload String) ENGINE = MergeTree PARTITION BY toYYYYMM(month) \
             ORDER BY id SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1"
        ),
    );
    query(engine, &format!("SYSTEM STOP MERGES default.{name}"));
    format!("default.{name}")
}

/// Rows in RowBinary, all of one month.
fn rows(count: u64, payload_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for id in 0..count {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&20_000_u16.to_le_bytes());
        let mut rest = payload_bytes;
        while rest >= 0x80 {
            out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        out.extend(std::iter::repeat_n(b'a' + (id % 26) as u8, payload_bytes));
    }
    out
}

fn insert(table: &str, parameters: &[(&str, &str)], body: &[u8]) -> crate::client::Response {
    let sql = format!("INSERT INTO {table} {COLUMNS} FORMAT RowBinary");
    let all: Vec<_> = parameters
        .iter()
        .copied()
        .chain([("query", sql.as_str())])
        .collect();
    post(shared(), &all, body)
}

fn parts_and_rows(table: &str) -> String {
    let name = table.trim_start_matches("default.");
    query(
        shared(),
        &format!(
            "SELECT count(), sum(rows) FROM system.parts WHERE active AND database = 'default' AND table = '{name}'"
        ),
    )
}

/// Frames one stored block as the clickhouse crate does, by hand.
fn stored_block(raw: &[u8]) -> Vec<u8> {
    let mut block = vec![0x02];
    block.extend_from_slice(&(raw.len() as u32 + 9).to_le_bytes());
    block.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    block.extend_from_slice(raw);
    let mut framed = cityhash_rs::cityhash_102_128(&block)
        .rotate_right(64)
        .to_le_bytes()
        .to_vec();
    framed.extend_from_slice(&block);
    framed
}

#[test]
fn an_insert_of_one_month_is_one_part() {
    for (name, count, payload_bytes) in [
        ("one_row", 1, 10),
        ("many_small", 1_000_000, 1),
        ("full_bytes", 130_000, 1_000),
        ("few_large", 20, 6_000_000),
    ] {
        let table = table(name);
        let body = rows(count, payload_bytes);
        assert!(body.len() <= 128 << 20);
        let response = insert(&table, &[], &body);
        assert_eq!(response.status, 200, "{name}: {}", response.text());
        assert_eq!(parts_and_rows(&table), format!("1\t{count}\n"), "{name}");
        assert!(
            response
                .header("x-clickhouse-summary")
                .contains(&format!("\"written_rows\":\"{count}\"")),
            "{name}"
        );
    }
}

#[test]
fn the_same_token_is_inserted_once_and_another_token_again() {
    let table = table("tokens");
    let body = rows(1_000, 10);
    for (token, expected) in [
        ("a", "1\t1000\n"),
        ("a", "1\t1000\n"),
        ("b", "2\t2000\n"),
        ("a", "2\t2000\n"),
    ] {
        let response = insert(
            &table,
            &[("insert_deduplication_token", token), ("async_insert", "0")],
            &body,
        );
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(parts_and_rows(&table), expected, "token {token}");
    }
}

#[test]
fn blocks_with_a_wrong_checksum_or_a_cut_insert_nothing() {
    let table = table("blocks");
    let mut body = stored_block(&rows(1_000, 100));
    body.extend(stored_block(&rows(1_000, 100)));
    let mut damaged = body.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (name, bytes, code) in [
        ("damaged", &damaged[..], "271"),
        ("cut", &body[..body.len() - 1], "33"),
    ] {
        let response = insert(&table, &[("decompress", "1")], bytes);
        assert_eq!(
            response.header("x-clickhouse-exception-code"),
            code,
            "{name}: {}",
            response.text()
        );
        assert_eq!(parts_and_rows(&table), "0\t0\n", "{name}");
    }
    assert_eq!(insert(&table, &[("decompress", "1")], &body).status, 200);
    assert_eq!(parts_and_rows(&table), "1\t2000\n");
}

#[test]
fn a_body_that_ends_early_inserts_nothing() {
    let engine = shared();
    let table = table("cut_short");
    let body = rows(10_000, 100);
    // Cut at a row boundary, so only the missing bytes show it.
    let half = &body[..body.len() / 2];
    for (framing, payload) in [
        (format!("Content-Length: {}", body.len()), half.to_vec()),
        (
            "Transfer-Encoding: chunked".to_owned(),
            [format!("{:x}\r\n", half.len()).as_bytes(), half, b"\r\n"].concat(),
        ),
    ] {
        send_raw(engine, &table, &framing, &payload);
        assert_eq!(
            query(engine, &format!("SELECT count() FROM {table}")),
            "0\n",
            "{framing}"
        );
    }
    assert_eq!(insert(&table, &[], &body).status, 200);
    assert_eq!(
        query(engine, &format!("SELECT count() FROM {table}")),
        "10000\n"
    );
}

/// Sends a request and closes the sending side; returns when the server has closed its own.
fn send_raw(engine: &TestEngine, table: &str, framing: &str, payload: &[u8]) {
    let mut stream = TcpStream::connect(engine.url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /?query=INSERT%20INTO%20{table}%20FORMAT%20RowBinary HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {}\r\n\
         X-ClickHouse-Key: {}\r\n{framing}\r\n\r\n",
        engine.user, engine.password
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(payload).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn rows_may_come_in_the_statement_in_the_body_or_in_both() {
    let engine = shared();
    let table = table("places");
    let cases: &[(&str, &str)] = &[
        (
            "",
            "INSERT INTO {t} VALUES (1, '2024-10-01', 'a'), (2, '2024-10-01', 'it''s; --')",
        ),
        ("", "INSERT INTO {t} FORMAT CSV\n3,2024-10-01,c\n"),
        (
            "INSERT INTO {t} FORMAT JSONEachRow",
            "{\"id\":4,\"month\":\"2024-10-01\",\"payload\":\"d\"}",
        ),
        ("INSERT INTO {t} VALUES", "(5, '2024-10-01', 'e')"),
        (
            "INSERT INTO {t} SETTINGS async_insert = 0 FORMAT TSV",
            "6\t2024-10-01\tf\n",
        ),
        ("", "INSERT INTO {t} SELECT 7, '2024-10-01', 'g'"),
        (
            "",
            "INSERT INTO {t} SETTINGS max_threads = 1 FORMAT CSV\n8,2024-10-01,h\n",
        ),
    ];
    for (parameter, body) in cases {
        let sql = parameter.replace("{t}", &table);
        let parameters: Vec<_> = (!sql.is_empty())
            .then_some(("query", sql.as_str()))
            .into_iter()
            .collect();
        let response = post(engine, &parameters, body.replace("{t}", &table).as_bytes());
        assert_eq!(
            response.status,
            200,
            "{parameter} {body}: {}",
            response.text()
        );
    }
    assert_eq!(
        query(engine, &format!("SELECT sum(id), count() FROM {table}")),
        "36\t8\n"
    );
}

#[test]
fn a_body_may_be_compressed_by_the_transport() {
    let engine = shared();
    let table = table("transport");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&rows(5_000, 50)).unwrap();
    let (user, key) = (
        format!("X-ClickHouse-User: {}", engine.user),
        format!("X-ClickHouse-Key: {}", engine.password),
    );
    let sql = format!("INSERT INTO {table} FORMAT RowBinary");
    let arguments = [
        "-H",
        &user,
        "-H",
        &key,
        "-H",
        "Content-Encoding: gzip",
        "--data-binary",
        "@-",
    ];
    let response = curl(
        engine,
        &[("query", &sql)],
        &arguments,
        &encoder.finish().unwrap(),
    );
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(parts_and_rows(&table), "1\t5000\n");
}
