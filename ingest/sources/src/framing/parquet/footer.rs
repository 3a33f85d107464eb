//! Checks the footer of a Parquet file before the library reads it: its length, its number of
//! columns and row groups, and their depth.
//!
//! A false claim of a few bytes would otherwise allocate billions of columns or overflow the stack.
//! (Format: parquet.thrift of Apache Parquet, `FileMetaData` and `SchemaElement`.)

use super::failure::malformed;
use crate::FileError;
use millrace_rows::counted;
use millrace_rows::thrift::{Thrift, kind};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8] = b"PAR1";
/// Most bytes of a footer: each takes several in memory.
const FOOTER_BYTES_MAX: u64 = 32 << 20;
/// Most columns and groups of columns.
const ELEMENTS_MAX: u64 = 4_000;
/// Most column chunks of all row groups: each takes about half a KiB in memory.
const CHUNKS_MAX: u64 = 150_000;
/// Most nested groups of columns. JSON takes twice as many brackets for lists, and records may have
/// 120.
const DEPTH_MAX: usize = 40;

/// Sizes that a footer claims.
#[derive(Debug, Default)]
struct Claims {
    elements: u64,
    depth: usize,
    leaves: u64,
    row_groups: u64,
}

/// Refuses a file whose footer claims more than the limits. Files that are no Parquet are left to
/// the library.
pub(super) fn check(file: &File) -> Result<(), FileError> {
    let length = file.metadata()?.len();
    let mut tail = [0; 8];
    let Some(tail_start) = length.checked_sub(8) else {
        return Ok(());
    };
    file.read_exact_at(&mut tail, tail_start)?;
    let [a, b, c, d, magic @ ..] = tail;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = tail_start.checked_sub(footer_bytes) else {
        return Ok(());
    };
    if magic != MAGIC {
        return Ok(());
    }
    if footer_bytes > FOOTER_BYTES_MAX {
        return Err(malformed(format!(
            "its description has {} MiB, of which at most {} are read. Rewrite it with larger row groups",
            footer_bytes >> 20,
            FOOTER_BYTES_MAX >> 20
        )));
    }
    let mut footer = vec![0; usize::try_from(footer_bytes).unwrap_or_default()];
    file.read_exact_at(&mut footer, start)?;
    check_claims(&claims(&footer).ok_or_else(|| malformed("its description is damaged"))?)
}

fn check_claims(claims: &Claims) -> Result<(), FileError> {
    if claims.elements > ELEMENTS_MAX {
        return Err(malformed(format!(
            "it has {} and groups of columns, of which at most {ELEMENTS_MAX} are read. \
             Remove columns",
            counted(claims.elements, "column")
        )));
    }
    if claims.depth > DEPTH_MAX {
        return Err(malformed(format!(
            "its columns lie more than {DEPTH_MAX} groups deep. Remove columns"
        )));
    }
    if claims.row_groups.saturating_mul(claims.leaves.max(1)) > CHUNKS_MAX {
        return Err(malformed(format!(
            "it has {} of {}, of which at most {CHUNKS_MAX} are read together. Rewrite it with \
             larger row groups",
            counted(claims.row_groups, "row group"),
            counted(claims.leaves, "column")
        )));
    }
    Ok(())
}

fn claims(footer: &[u8]) -> Option<Claims> {
    let mut claims = Claims::default();
    Thrift::new(footer).fields(|thrift, id, kind| match (id, kind) {
        (2, kind::LIST) => schema(thrift, &mut claims).map(|()| true),
        (4, kind::LIST) => {
            let (element, count) = thrift.list()?;
            claims.row_groups = claims.row_groups.saturating_add(count);
            (element == kind::STRUCT).then_some(())?;
            for _ in 0..count {
                thrift.fields(|_, _, _| Some(false))?;
            }
            Some(true)
        }
        _ => Some(false),
    })?;
    Some(claims)
}

/// Reads the tree of columns: each element has the number of its children among those after it.
fn schema(thrift: &mut Thrift<'_>, claims: &mut Claims) -> Option<()> {
    let (element, count) = thrift.list()?;
    (element == kind::STRUCT).then_some(())?;
    let mut open: Vec<u64> = Vec::new();
    for index in 0..count {
        let mut children = 0;
        thrift.fields(|thrift, id, kind| {
            if (id, kind) != (5, kind::I32) {
                return Some(false);
            }
            children = u64::try_from(thrift.number()?).ok()?;
            Some(true)
        })?;
        (children < count - index).then_some(())?;
        claims.leaves += u64::from(children == 0);
        while let Some(left) = open.last_mut() {
            if *left > 0 {
                *left -= 1;
                break;
            }
            open.pop();
        }
        if children > 0 {
            open.push(children);
        }
        claims.depth = claims.depth.max(open.len());
    }
    claims.elements = claims.elements.saturating_add(count);
    Some(())
}
