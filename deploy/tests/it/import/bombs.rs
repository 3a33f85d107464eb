//! Small files that unpack to more than a machine's memory: the importer reports their problem
//! within its documented memory.

use crate::readme::root;
use crate::server::millrace;
use millrace_sources::testing::{Outcome, parquet_bombs};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Memory per file that the guide documents.
const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Size limit of a report, above what any needs.
const REPORT_BYTES_MAX: u64 = 1 << 20;
const MIB: u64 = 1 << 20;

/// Python script that runs a program and appends its peak memory, in KiB, to its output.
const MEASURED: &str = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)";

/// Runs `check` on a file; returns its result and its peak memory.
fn check(home: &Path, file: &str, more: &[&str]) -> (Value, u64) {
    let program = millrace();
    let mut command = Command::new(root().join(".test-env/python/bin/python"));
    command.args(["-c", MEASURED]).arg(program.get_program());
    command.args(["import", "check", file, "--json"]).args(more);
    command.current_dir(home);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.trim_end().lines().collect();
    let (peak, lines) = lines.split_last().unwrap_or_else(|| panic!("{output:?}"));
    let mut results = lines.iter().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line.get("result").cloned()
    });
    let result = results.next_back();
    let result = result.unwrap_or_else(|| panic!("{file}: {output:?}"));
    (result, peak.parse::<u64>().unwrap() << 10)
}

/// Runs `check` on a file, and asserts the limits of memory and report.
fn checked(home: &Path, file: &str, more: &[&str]) -> Value {
    let (result, peak_bytes) = check(home, file, more);
    println!("{file}: {} MiB at the peak", peak_bytes >> 20);
    assert!(peak_bytes < MEMORY_BYTES_MAX, "{file}: {peak_bytes} bytes");
    let report = home
        .join("millrace-import/check.json")
        .metadata()
        .unwrap()
        .len();
    assert!(
        report < REPORT_BYTES_MAX,
        "{file}: a report of {report} bytes"
    );
    result
}

#[test]
fn no_parquet_file_takes_more_than_the_documented_memory() {
    let home = TempDir::new().unwrap();
    for bomb in parquet_bombs() {
        let file = format!("{}.parquet", bomb.name);
        std::fs::write(home.path().join(&file), &bomb.bytes).unwrap();
        let found = checked(home.path(), &file, &[]);
        match bomb.outcome {
            Outcome::Rows { rows, too_long } => {
                assert_eq!(found["records"], rows, "{file}: {found}");
                assert_eq!(found["broken"], json!([]), "{file}");
                let large = found["rejected"]["record_too_large"].as_u64();
                assert_eq!(large.unwrap_or_default(), too_long, "{file}: {found}");
            }
            Outcome::Refused(reason) => {
                let told = found["broken"][0][1].as_str().unwrap_or_default();
                assert!(told.contains(reason), "{file}: {found}");
            }
        }
    }
}

/// Stream of `bytes` repetitions of a byte, between two texts.
fn between(before: &str, byte: u8, bytes: u64, after: &str) -> impl Read + use<> {
    let middle = std::io::repeat(byte).take(bytes);
    let (before, after) = (before.to_owned(), after.to_owned());
    std::io::Cursor::new(before)
        .chain(middle)
        .chain(std::io::Cursor::new(after))
}

fn packed(home: &Path, name: &str, mut content: impl Read) {
    let file = std::fs::File::create(home.join(name)).unwrap();
    if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::copy(&mut content, &mut encoder).unwrap();
        encoder.finish().unwrap().flush().unwrap();
    } else {
        zstd::stream::copy_encode(&mut content, file, 1).unwrap();
    }
}

const EVENT: &str = "{\"event\":\"e\",\"distinct_id\":\"d\",\"timestamp\":\"2024-01-05\"}\n";
const HEADER: &str = "event,distinct_id,timestamp\n";
const ROW: &str = "e,d,2024-01-05\n";

#[test]
fn no_endless_line_or_field_takes_more_than_the_documented_memory() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let text = format!("{EVENT}{{\"event\":\"");
    let rows = format!("{HEADER}{ROW}");
    let (quote, unquote) = (format!("{rows}\""), format!("\",d,2024-01-05\n{ROW}"));
    let table = [
        (
            "spaces.ndjson.zst",
            between(EVENT, b' ', 700 * MIB, &format!("\n{EVENT}")),
        ),
        (
            "spaces.ndjson.gz",
            between(EVENT, b' ', 700 * MIB, &format!("\n{EVENT}")),
        ),
        (
            "text.ndjson.zst",
            between(&text, b'x', 700 * MIB, &format!("\"}}\n{EVENT}")),
        ),
        ("field.csv.zst", between(&quote, b'x', 700 * MIB, &unquote)),
        ("controls.csv.zst", between(&quote, 1, 31 * MIB, &unquote)),
        (
            "fields.csv.zst",
            between(&rows, b',', 700 * MIB, &format!("\n{ROW}")),
        ),
    ];
    for (file, content) in table {
        packed(home, file, content);
        let found = checked(home, file, &[]);
        assert_eq!(found["records"], 3, "{file}: {found}");
        let rejected = json!({"record_too_large": 1});
        assert_eq!(found["rejected"], rejected, "{file}");
    }
}

#[test]
fn no_endless_header_or_element_takes_more_than_the_documented_memory() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let header = between("\"", b'x', 700 * MIB, "\"\n");
    let element = between("[{\"event\":\"", b'x', 700 * MIB, "\"}]");
    let table = [
        ("header.csv.zst", "csv", header),
        ("element.json.zst", "captured", element),
    ];
    for (file, format, content) in table {
        packed(home, file, content);
        let found = checked(home, file, &["--format", format]);
        let told = found["broken"][0][1].as_str().unwrap_or_default();
        assert!(told.contains("longer than"), "{file}: {found}");
    }
}

#[test]
fn rejected_records_do_not_accumulate_in_memory() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    // Invalid JSON of 1 MiB each, and objects with more members than an event may have.
    let line = "x".repeat(MIB as usize) + "\n";
    packed(
        home,
        "refused.ndjson.zst",
        std::io::Cursor::new(line.repeat(700)),
    );
    let found = checked(home, "refused.ndjson.zst", &["--format", "captured"]);
    assert_eq!(found["rejected"], json!({"invalid_json": 700}));
    let members = format!(
        "{{\"event\":\"e\",\"properties\":{{{}\"a\":0}}}}\n",
        "\"\":0,".repeat(5_000_000)
    );
    packed(
        home,
        "members.ndjson.zst",
        std::io::Cursor::new(members.repeat(3)),
    );
    let found = checked(home, "members.ndjson.zst", &["--format", "mixpanel"]);
    assert_eq!(found["rejected"], json!({"invalid_record": 3}));
}

#[test]
fn no_archive_member_takes_more_than_the_documented_memory() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let made = Command::new(root().join(".test-env/python/bin/python"))
        .current_dir(home)
        .args([
            "-c",
            "import zipfile
archive = zipfile.ZipFile('spaces.zip', 'w', zipfile.ZIP_DEFLATED)
event = b'{\"event\":\"e\",\"distinct_id\":\"d\",\"timestamp\":\"2024-01-05\"}\\n'
with archive.open('a.ndjson', 'w', force_zip64=True) as member:
    member.write(event)
    for _ in range(700):
        member.write(b' ' * (1 << 20))
    member.write(b'\\n' + event)
archive.close()",
        ])
        .status();
    assert!(made.unwrap().success());
    let found = checked(home, "spaces.zip", &[]);
    assert_eq!(found["records"], 3, "{found}");
    assert_eq!(found["rejected"], json!({"record_too_large": 1}));
}
