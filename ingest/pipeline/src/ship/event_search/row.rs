//! Tests bytes for the likeness of a row.

use super::{Search, Step};
use crate::ship::rows::number;
use millrace_rows::{Micros, Month};

/// Most bytes of an event's name and of a distinct id, of 200 characters each.
const NAME_BYTES_MAX: u64 = 800;
/// Bound of the ids of projects, which are given out one by one.
const PROJECT_ID_MAX: i64 = 1 << 40;

impl Search<'_> {
    /// Returns true if a row may begin at an offset: a cheap test before its bytes are looked at.
    pub(super) fn may_begin(&self, at: usize) -> bool {
        let properties = || {
            let rest = self.bytes.get(at..)?.get(16..)?;
            let (event_bytes, rest) = length(rest).ok()?;
            let is_name = (1..=NAME_BYTES_MAX).contains(&event_bytes);
            let rest = rest.get(event_bytes as usize..).filter(|_| is_name)?;
            length(rest).ok()?.1.first()
        };
        properties() == Some(&b'{')
    }

    /// Most bytes that were looked at of what is no row: its name, and what there is of its
    /// properties.
    pub(super) fn texts_bytes(&self, at: usize) -> usize {
        let bytes = || {
            let rest = self.bytes.get(at..)?.get(16..)?;
            let (event_bytes, rest) = length(rest).ok()?;
            let rest = rest.get(usize::try_from(event_bytes).ok()?..)?;
            let (bytes, rest) = length(rest).ok()?;
            Some(event_bytes as usize + rest.len().min(bytes as usize))
        };
        bytes().unwrap_or(1)
    }

    /// Reads the row at an offset, and returns its end.
    pub(super) fn row_at(&self, at: usize) -> Result<usize, Step> {
        let rest = self.bytes.get(at..).ok_or(Step::Cut)?;
        let (_, rest) = rest.split_at_checked(16).ok_or(Step::Cut)?;
        let rest = name(rest)?;
        let rest = properties(rest)?;
        let (timestamp, rest) = number(rest).ok_or(Step::Cut)?;
        let (project_id, rest) = number(rest).ok_or(Step::Cut)?;
        if Month::of(Micros(timestamp)) != self.month || !(1..PROJECT_ID_MAX).contains(&project_id)
        {
            return Err(Step::Other);
        }
        let rest = name(rest)?;
        let (created_at, rest) = number(rest).ok_or(Step::Cut)?;
        let (is_import, rest) = rest.split_first().ok_or(Step::Cut)?;
        if !self.received.contains(&created_at) || *is_import > 1 {
            return Err(Step::Other);
        }
        Ok(self.bytes.len() - rest.len())
    }
}

/// Reads a length in LEB128.
fn length(bytes: &[u8]) -> Result<(u64, &[u8]), Step> {
    let (mut length, mut rest) = (0_u64, bytes);
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Step::Cut)?;
        rest = tail;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((length, rest));
        }
    }
    Err(Step::Other)
}

/// Splits off what there is of a text of so many bytes.
fn available(bytes: &[u8], length: u64) -> (&[u8], Option<&[u8]>) {
    let whole = usize::try_from(length).ok();
    match whole.and_then(|length| bytes.split_at_checked(length)) {
        Some((text, rest)) => (text, Some(rest)),
        None => (bytes, None),
    }
}

/// Skips an event's name or a distinct id.
fn name(bytes: &[u8]) -> Result<&[u8], Step> {
    let (length, rest) = length(bytes)?;
    if !(1..=NAME_BYTES_MAX).contains(&length) {
        return Err(Step::Other);
    }
    let (text, rest) = available(rest, length);
    if text.contains(&0) || !is_text(text, rest.is_none()) {
        return Err(Step::Other);
    }
    rest.ok_or(Step::Cut)
}

/// Skips the text of an event's properties.
fn properties(bytes: &[u8]) -> Result<&[u8], Step> {
    let (length, rest) = length(bytes)?;
    let (text, rest) = available(rest, length);
    let is_space = |byte: &u8| [b'\t', b'\n', b'\r'].contains(byte);
    let is_object = length >= 2
        && text.first().is_none_or(|byte| *byte == b'{')
        && (rest.is_none() || text.last() == Some(&b'}'))
        && text.iter().all(|byte| *byte >= b' ' || is_space(byte));
    if !is_object || !is_text(text, rest.is_none()) {
        return Err(Step::Other);
    }
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    match rest {
        Some(rest) if is_json() => Ok(rest),
        Some(_) => Err(Step::Other),
        None => Err(Step::Cut),
    }
}

fn is_text(bytes: &[u8], is_cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => is_cut && error.error_len().is_none(),
    }
}
