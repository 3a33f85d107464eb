//! Blocks are the bytes that ClickHouse reads, read back whole, and no damage passes.

use super::header::{BLOCK_BYTES_MAX, METHOD_LZ4, METHOD_NONE, header_of, seal};
use super::write::{COMPRESSED_ROWS_BYTES_MAX, store_into};
use super::{BlockError, Compressor, bytes_of, decompress_into_vec, split_block};

fn compressed(rows: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new().compress_into(rows, &mut out);
    out
}

#[test]
fn blocks_are_the_bytes_clickhouse_reads() {
    // The bytes of the clickhouse crate's own tests.
    let source = [
        245u8, 5, 222, 235, 225, 158, 59, 108, 225, 31, 65, 215, 66, 66, 36, 92, 130, 34, 0, 0, 0,
        23, 0, 0, 0, 240, 8, 1, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114, 105,
        110, 103, 3, 97, 98, 99,
    ];
    let plain = [
        1u8, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114, 105, 110, 103, 3, 97, 98,
        99,
    ];
    let mut out = Vec::new();
    decompress_into_vec(&source, &mut out, 23).unwrap();
    assert_eq!(out, plain);
    assert_eq!(compressed(&plain), source);
}

#[test]
fn large_input_is_cut_into_blocks_that_read_back() {
    let mut compressor = Compressor::new();
    for bytes in [
        0,
        1,
        15,
        1000,
        COMPRESSED_ROWS_BYTES_MAX,
        COMPRESSED_ROWS_BYTES_MAX + 1,
        3 << 20,
    ] {
        let rows: Vec<u8> = (0..bytes).map(|i| ((i * i) >> 7) as u8).collect();
        let mut run = vec![9];
        compressor.compress_into(&rows, &mut run);
        let mut blocks = 0;
        let mut rest = &run[1..];
        while !rest.is_empty() {
            rest = split_block(rest).unwrap().1;
            blocks += 1;
        }
        assert_eq!(blocks, bytes.div_ceil(COMPRESSED_ROWS_BYTES_MAX));
        let mut back = b"before".to_vec();
        decompress_into_vec(&run[1..], &mut back, bytes).unwrap();
        assert!(back[6..] == rows, "{bytes} bytes read back");
        if bytes > 0 {
            let small = decompress_into_vec(&run[1..], &mut Vec::new(), bytes - 1);
            assert!(matches!(small, Err(BlockError::TooLarge { .. })));
        }
    }
}

#[test]
fn stored_blocks_read_back_beside_compressed_ones() {
    for bytes in [0, 1, BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1] {
        let rows: Vec<u8> = (0..bytes).map(|i| (i >> 3) as u8).collect();
        let mut run = compressed(b"before");
        store_into(&rows, &mut run);
        let mut back = Vec::new();
        decompress_into_vec(&run, &mut back, bytes + 6).unwrap();
        assert!(
            back.starts_with(b"before") && back[6..] == rows,
            "{bytes} bytes read back"
        );
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_detected() {
    let text = b"an event, an event, an event, and another event";
    let mut stored = Vec::new();
    store_into(text, &mut stored);
    for run in [compressed(text), stored] {
        for bit in 0..run.len() * 8 {
            let mut bad = run.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decompress_into_vec(&bad, &mut Vec::new(), 1 << 20).is_err());
        }
        for cut in 1..run.len() {
            assert!(decompress_into_vec(&run[..cut], &mut Vec::new(), 1 << 20).is_err());
        }
    }
}

#[test]
fn a_sealed_block_that_contradicts_itself_is_refused() {
    for (method, uncompressed_bytes, expected) in [
        (METHOD_NONE, 4, BlockError::Contents),
        (METHOD_NONE, 6, BlockError::Contents),
        (METHOD_LZ4, 6, BlockError::Contents),
        (0x90, 5, BlockError::Method(0x90)),
    ] {
        let mut run = header_of(method, 5, uncompressed_bytes).to_vec();
        run.extend_from_slice(b"an ev");
        seal(&mut run);
        let mut out = b"before".to_vec();
        let refused = decompress_into_vec(&run, &mut out, 1 << 20);
        assert_eq!(
            refused,
            Err(expected),
            "{method:#04x}, {uncompressed_bytes}"
        );
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_header_with_a_size_that_no_written_block_has_is_refused() {
    // The most that LZ4 makes of 1 MiB, and no data at all.
    let largest = BLOCK_BYTES_MAX + BLOCK_BYTES_MAX / 255 + 16;
    let limit = 1_059_061;
    for (data_bytes, is_one) in [
        (0, true),
        (largest, true),
        (limit, true),
        (limit + 1, false),
    ] {
        let header = header_of(METHOD_LZ4, data_bytes, BLOCK_BYTES_MAX);
        let expected = is_one.then_some(25 + data_bytes as u64);
        assert_eq!(bytes_of(&header), expected, "{data_bytes} bytes of data");
    }
    let mut less_than_its_sizes = header_of(METHOD_LZ4, 0, 0);
    less_than_its_sizes[17] -= 1;
    assert_eq!(bytes_of(&less_than_its_sizes), None);
}
