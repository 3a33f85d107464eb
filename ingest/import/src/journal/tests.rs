//! Journals that are torn, damaged, or of another import.

use super::*;

fn header() -> JournalHeader {
    JournalHeader {
        version: 1,
        url: "http://127.0.0.1:8000".to_owned(),
        project_key: "phc_a".to_owned(),
        source: ["captured".to_owned(), String::new()],
        mapping: String::new(),
    }
}

fn imported(file: &str, offset: u64, is_end: bool) -> ImportedChunk {
    let mut imported = ImportedChunk {
        file: file.to_owned(),
        file_bytes: 100,
        is_end,
        records: 2,
        ..ImportedChunk::default()
    };
    imported.next.offset = offset;
    imported.made.add(19_000, "a", 2);
    imported.accepted.add(19_000, "a", 1);
    imported.rejected.insert("invalid_json".to_owned(), 1);
    imported
}

fn open(path: &Path, header: &JournalHeader) -> anyhow::Result<(Journal, Progress)> {
    Journal::open(&Lock::take(path)?, header)
}

fn file(path: &str, bytes: u64) -> SourceFile {
    SourceFile {
        path: path.into(),
        entry: None,
        bytes,
    }
}

#[test]
fn a_journal_cut_at_any_byte_continues_after_its_last_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (mut journal, progress) = open(&path, &header()).unwrap();
    assert_eq!(
        progress.of(&file("a", 100)).unwrap(),
        Some(Position::default())
    );
    journal.append(vec![imported("a", 10, false)]).unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    journal
        .append(vec![imported("b", 7, false), imported("a", 20, true)])
        .unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for length in before as usize..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (mut journal, progress) = open(&path, &header()).unwrap();
        assert_eq!(
            progress.of(&file("a", 100)).unwrap().unwrap().offset,
            10,
            "{length}"
        );
        journal.append(vec![imported("a", 15, false)]).unwrap();
        let progress = Journal::read(&path).unwrap();
        assert_eq!(progress.of(&file("a", 100)).unwrap().unwrap().offset, 15);
    }
    std::fs::write(&path, &whole).unwrap();
    let progress = Journal::read(&path).unwrap();
    assert_eq!(progress.of(&file("a", 100)).unwrap(), None);
    assert_eq!(progress.sum.accepted.total(), 3);
    assert_eq!(progress.sum.rejected["invalid_json"], 3);
}

#[test]
fn another_import_another_file_and_another_process_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (mut journal, _) = open(&path, &header()).unwrap();
    journal.append(vec![imported("a", 10, false)]).unwrap();
    let error = Lock::take(&path).unwrap_err().to_string();
    assert!(error.contains("another import is writing"), "{error}");
    drop(journal);
    let other = JournalHeader {
        project_key: "phc_b".to_owned(),
        ..header()
    };
    let error = open(&path, &other).unwrap_err().to_string();
    assert!(error.contains("another project key"), "{error}");
    let progress = Journal::read(&path).unwrap();
    let error = progress.of(&file("a", 99)).unwrap_err().to_string();
    assert!(error.contains("has 99 bytes and had 100"), "{error}");
}

#[test]
fn a_damaged_journal_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (mut journal, _) = open(&path, &header()).unwrap();
    journal.append(vec![imported("a", 10, false)]).unwrap();
    drop(journal);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] = b'\n';
    std::fs::write(&path, bytes).unwrap();
    let error = Journal::read(&path).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
}
