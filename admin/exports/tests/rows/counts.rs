//! Tests of counting rows in bytes that are cut anywhere, in all forms.

use crate::fixture::{Database, Event, new_options, scope, window_query};
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{
    ColumnCompression, CountError, EventFilter, RowCounter, RowForm, WindowPart,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

const FORMS: [RowForm; 7] = [
    RowForm::JsonLines,
    RowForm::TableJsonLines,
    RowForm::Csv,
    RowForm::Parquet(ColumnCompression::None),
    RowForm::Parquet(ColumnCompression::Zstd),
    RowForm::Arrow(ColumnCompression::None),
    RowForm::Arrow(ColumnCompression::Lz4),
];

struct EncodedRows {
    form: RowForm,
    rows: u64,
    bytes: Vec<u8>,
}

fn count<'a>(form: RowForm, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<u64, CountError> {
    let mut counter = RowCounter::new(form);
    for piece in pieces {
        counter.update(piece)?;
    }
    counter.finish()
}

/// Real answers of ClickHouse: no rows, one and many, rows with line ends and quotes in them,
/// several groups and batches, columns of every kind.
async fn answers(name: &str) -> Vec<EncodedRows> {
    let database = Database::make(name).await;
    let odd = |n: u32| Event {
        event: format!("line\n{n}\r\n\"quoted\""),
        properties: format!("{{\n\"a\": \"{}\"\n}}", "\\\"".repeat(n as usize % 50)),
        ..Event::nth(n)
    };
    database.store(&(0..3_000).map(odd).collect::<Vec<_>>());
    let wide = "SELECT *, [1, 2] AS a, (1, 'x\ny') AS t, map('k', 1) AS m, nullIf(1, 1) AS n, true AS b, \
                toDecimal64(1, 3) AS d, properties || properties AS p FROM events";
    let one = "SELECT count() AS n FROM events";
    let mut answers = Vec::new();
    let filter = EventFilter::default();
    let none = EventFilter {
        include: vec!["nothing".to_owned()],
        exclude: Vec::new(),
    };
    let queries = [
        (None, &filter, 3_000),
        (None, &none, 0),
        (Some(ExportQuery::parse(wide).unwrap()), &filter, 3_000),
        (Some(ExportQuery::parse(one).unwrap()), &filter, 1),
    ];
    let scope = scope();
    for (query, filter, rows) in &queries {
        for form in FORMS {
            let window_query = window_query(&database.clickhouse, &scope, filter, query.as_ref());
            let statement = window_query.statement(form, WindowPart::WHOLE).unwrap();
            let mut options = new_options(&statement);
            options.block_rows = 100;
            options.settings.push((
                "output_format_parquet_row_group_size".to_owned(),
                "250".to_owned(),
            ));
            let bytes = database.bytes_with(&statement.sql, &options).await.unwrap();
            let counted = database
                .number(&window_query.count(WindowPart::WHOLE).unwrap())
                .await;
            assert_eq!(counted, *rows);
            answers.push(EncodedRows {
                form,
                rows: *rows,
                bytes,
            });
        }
    }
    answers
}

/// Splits bytes at some positions.
fn cut<'a>(bytes: &'a [u8], places: &[Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places
        .iter()
        .map(|place| place.index(bytes.len() + 1))
        .collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_does_not_depend_on_where_the_bytes_are_cut() {
    let answers = answers("counts").await;
    for EncodedRows { form, rows, bytes } in &answers {
        let alone = count(*form, bytes.chunks(1));
        assert_eq!(alone, Ok(*rows), "{form:?}, byte by byte");
    }
    let strategy = (
        0..answers.len(),
        prop::collection::vec(any::<Index>(), 0..40),
    );
    let mut runner = TestRunner::new(Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    });
    let checked = runner.run(&strategy, |(which, places)| {
        let EncodedRows { form, rows, bytes } = &answers[which];
        let pieces = cut(bytes, &places);
        prop_assert_eq!(count(*form, pieces), Ok(*rows), "{:?}", form);
        Ok(())
    });
    checked.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_bytes_are_never_counted_as_complete() {
    for EncodedRows { form, rows, bytes } in answers("cut_short").await {
        let is_whole_by_lines = |end: usize| {
            let lines = matches!(
                form,
                RowForm::JsonLines | RowForm::TableJsonLines | RowForm::Csv
            );
            // After a line end the bytes look complete: only the number of rows tells.
            lines && (end == 0 || bytes[end - 1] == b'\n')
        };
        let step = (bytes.len() / 150).max(1);
        for end in (0..bytes.len()).step_by(step) {
            let counted = count(form, [&bytes[..end]]);
            match counted {
                Err(CountError::Cut | CountError::Malformed(_)) => {}
                Ok(counted) => {
                    assert!(is_whole_by_lines(end), "{form:?} cut at {end}");
                    assert!(
                        counted < rows || rows == 0,
                        "{form:?} cut at {end}: {counted}"
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_of_another_form_are_refused_and_never_panic() {
    let columnar = [
        RowForm::Parquet(ColumnCompression::None),
        RowForm::Arrow(ColumnCompression::None),
    ];
    for form in columnar {
        for bytes in [
            &b""[..],
            b"PAR1",
            b"\0\0\0\0PAR1",
            b"\xff\xff\xff\x7fPAR1",
            b"<html>",
            &[0xff; 64],
            &[0; 64],
        ] {
            count(form, [bytes]).unwrap_err();
        }
    }
    let mut runner = TestRunner::new(Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    });
    let bytes = (
        0..columnar.len(),
        prop::collection::vec(any::<u8>(), 0..200),
        any::<bool>(),
    );
    let checked = runner.run(&bytes, |(which, mut bytes, ends_well)| {
        if ends_well {
            let length = u32::try_from(bytes.len()).unwrap();
            bytes.extend(length.to_le_bytes());
            bytes.extend(b"PAR1");
            bytes.splice(
                0..0,
                [0xff, 0xff, 0xff, 0xff, 40, 0, 0, 0]
                    .into_iter()
                    .take(which * 8),
            );
        }
        let _ = count(columnar[which], [bytes.as_slice()]);
        Ok(())
    });
    checked.unwrap();
}
