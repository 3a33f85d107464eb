//! The description at the end of a Parquet file, looked at before the library reads it: how long it is, how many columns
//! and row groups it has, and how deep they lie. A lie of a few bytes would else be room for billions of columns, or a
//! stack that ends. (Format: parquet.thrift of Apache Parquet, `FileMetaData` and `SchemaElement`.)

use super::malformed;
use super::thrift::{Thrift, kind};
use crate::FileError;
use std::fs::File;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8] = b"PAR1";
/// The longest description: each of its bytes takes several in memory.
const FOOTER_BYTES_MAX: u64 = 32 << 20;
/// Columns and the groups that they are in.
const ELEMENTS_MAX: u64 = 4_000;
/// Columns of all row groups: each takes about half a KiB in memory.
const CHUNKS_MAX: u64 = 150_000;
/// Groups of columns in one another. JSON takes twice as many brackets for lists, and 120 is what records may have.
const DEPTH_MAX: usize = 40;

/// What a description claims.
#[derive(Debug, Default)]
struct Claims {
    elements: u64,
    depth: usize,
    leaves: u64,
    row_groups: u64,
}

/// Refuses a file whose description claims more than is read. What is no Parquet at all is left to the library to say.
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
            "its description has {} MiB, of which at most {} are read. Write it anew with larger row groups",
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
            "it has {} columns and groups of columns, of which at most {ELEMENTS_MAX} are read. Take out columns",
            claims.elements
        )));
    }
    if claims.depth > DEPTH_MAX {
        return Err(malformed(format!(
            "its columns lie more than {DEPTH_MAX} groups deep. Take out columns"
        )));
    }
    if claims.row_groups.saturating_mul(claims.leaves.max(1)) > CHUNKS_MAX {
        return Err(malformed(format!(
            "it has {} row groups of {} columns, of which at most {CHUNKS_MAX} are read together. Write it anew with larger \
             row groups",
            claims.row_groups, claims.leaves
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

/// The tree of columns: each element says how many of those behind it are its children.
fn schema(thrift: &mut Thrift<'_>, claims: &mut Claims) -> Option<()> {
    let (element, count) = thrift.list()?;
    (element == kind::STRUCT).then_some(())?;
    let mut open: Vec<u64> = Vec::new();
    for place in 0..count {
        let mut children = 0;
        thrift.fields(|thrift, id, kind| {
            if (id, kind) != (5, kind::I32) {
                return Some(false);
            }
            children = u64::try_from(thrift.number()?).ok()?;
            Some(true)
        })?;
        (children < count - place).then_some(())?;
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
