//! Parquet bombs: small files that make a naive reader take any amount of memory.

use super::bomb::{Bomb, CLAIM, MIB, Outcome, bomb};
use super::bomb_pages;
use super::wire::{ThriftWriter, number};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int32Array, ListArray, RecordBatch, StringArray,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use std::sync::Arc;

/// Makes all bombs: long values, extreme schemas, false claims in footers and pages.
#[must_use]
pub fn parquet_bombs() -> Vec<Bomb> {
    [
        long_texts(),
        extreme_files(),
        footers(),
        bomb_pages::pages(),
    ]
    .concat()
}

fn write(columns: Vec<(&str, ArrayRef)>, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Valid files with texts that are longer than an event.
fn long_texts() -> Vec<Bomb> {
    let one_of_three = Outcome::Rows {
        rows: 3,
        too_long: 1,
    };
    let codecs = [
        ("brotli-60", Compression::BROTLI(BrotliLevel::default())),
        ("zstd-60", Compression::ZSTD(ZstdLevel::default())),
        ("gzip-60", Compression::GZIP(GzipLevel::default())),
        ("snappy-60", Compression::SNAPPY),
    ];
    let long_text = |codec, bytes: usize| {
        let texts = ["short".to_owned(), " ".repeat(bytes), "short".to_owned()];
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        write(
            vec![("a", column)],
            WriterProperties::builder().set_compression(codec),
        )
    };
    let mut bombs: Vec<_> = codecs
        .map(|(name, codec)| bomb(name, long_text(codec, 60 * MIB), one_of_three))
        .into();
    bombs.push(bomb(
        "brotli-300",
        long_text(codecs[0].1, 300 * MIB),
        Outcome::Refused("of which at most 128"),
    ));
    bombs
}

/// Valid files with a text that a thousand rows share, a list of a million, a great many columns.
fn extreme_files() -> Vec<Bomb> {
    let properties = WriterProperties::builder;
    let same_text = || -> ArrayRef {
        let text = StringArray::from(vec!["x".repeat(MIB)]);
        let keys = Int32Array::from(vec![0; 1_000]);
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(text)))
    };
    let rows = |rows| Outcome::Rows { rows, too_long: 0 };
    let million = vec![Some(7); 1_000_000];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>([Some(
        million,
    )]));
    let names: Vec<String> = (0..1_900)
        .map(|number| format!("column {number}"))
        .collect();
    let wide = names.iter().map(|name| {
        let column: ArrayRef = Arc::new(Int8Array::from(vec![1; 50]));
        (name.as_str(), column)
    });
    let packed = properties().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let dictionary = properties().set_dictionary_page_size_limit(4 * MIB);
    let prefixes = properties()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY);
    vec![
        bomb(
            "dictionary",
            write(vec![("a", same_text())], dictionary),
            rows(1_000),
        ),
        bomb(
            "prefixes",
            write(vec![("a", same_text())], prefixes),
            rows(1_000),
        ),
        bomb("list", write(vec![("a", list)], properties()), rows(1)),
        bomb("wide", write(wide.collect(), packed), rows(50)),
    ]
}

/// Footers that claim more than the file has, or than is accepted.
fn footers() -> Vec<Bomb> {
    let version = || ThriftWriter::default().i32(1, 1);
    let mut deep = version().structs(1, 100_001);
    for _ in 0..100_000 {
        deep = deep.group("g", 1);
    }
    let deep = deep.i32(1, number::INT32).i32(2, 0).text(1, "a").end();
    let mut wide = version().structs(1, 100_001).group("root", 100_000);
    for _ in 0..100_000 {
        wide = wide.i32(1, number::INT32).i32(2, 0).text(1, "a").end();
    }
    let one = || {
        let root = version().structs(1, 2).group("root", 1);
        root.i32(1, number::INT32).i32(2, 0).text(1, "a").end()
    };
    let mut groups = one().i64(1, 0).structs(1, 200_000);
    for _ in 0..200_000 {
        groups = groups.structs(1, 0).i64(1, 0).i64(1, 0).end();
    }
    let children = version().structs(1, 1).group("root", CLAIM);
    vec![
        bomb(
            "deep",
            deep.i64(1, 0).structs(1, 0).end().footer_alone(),
            Outcome::Refused("of which at most"),
        ),
        bomb(
            "columns",
            wide.i64(1, 0).structs(1, 0).end().footer_alone(),
            Outcome::Refused("of which at most"),
        ),
        bomb(
            "groups",
            groups.end().footer_alone(),
            Outcome::Refused("row groups"),
        ),
        bomb(
            "children",
            children.i64(1, 0).structs(1, 0).end().footer_alone(),
            Outcome::Refused("damaged"),
        ),
        bomb(
            "claim",
            one()
                .i64(1, 0)
                .structs(1, CLAIM as u64)
                .end()
                .footer_alone(),
            Outcome::Refused("damaged"),
        ),
    ]
}
