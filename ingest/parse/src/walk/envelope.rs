//! Root of a body: its shape, and its list of events.

use super::cursor::{Cursor, IndexMark};
use super::fields;
use crate::characters::Refused;
use crate::index::Index;
use crate::span::{BodyShape, Document, EventSpans, Kind};

/// Walks over an indexed body.
///
/// Past `events_max` events the rest of the list is passed over: the document then holds one
/// event more than allowed.
pub fn walk(
    body: &[u8],
    index: &Index,
    depth_max: usize,
    events_max: usize,
    document: &mut Document,
) -> Result<(), Refused> {
    document.clear();
    let mut cursor = Cursor::new(body, index, depth_max);
    let root = cursor.next()?;
    match root.byte {
        b'[' => {
            document.shape = BodyShape::Array;
            events(&mut cursor, 1, events_max, document)?;
        }
        b'{' => root_object(&mut cursor, root, events_max, document)?,
        _ => return Err(Refused),
    }
    if cursor.is_done() {
        Ok(())
    } else {
        Err(Refused)
    }
}

fn root_object(
    cursor: &mut Cursor<'_>,
    root: IndexMark,
    events_max: usize,
    document: &mut Document,
) -> Result<(), Refused> {
    let mut spans = EventSpans::default();
    cursor.check_depth(1)?;
    let mut end = 0;
    let mut next = cursor.first_member(&mut end)?;
    while let Some(member) = next {
        let name = cursor.name(&member)?;
        match name {
            b"batch" => batch(cursor, member.value, events_max, document)?,
            b"sent_at" => document.sent_at = cursor.value(member.value, 1)?,
            b"sentAt" => document.sent_at_camel = cursor.value(member.value, 1)?,
            _ => {
                let rare = &mut document.rare;
                fields::event_field(cursor, name, member.value, 1, &mut spans, rare)?;
            }
        }
        next = cursor.next_member(&mut end)?;
    }
    spans.whole = cursor.span(Kind::Object, root, end);
    document.root = spans;
    if document.shape == BodyShape::Single {
        document.events.push(spans);
    }
    Ok(())
}

/// Reads the value of `batch`; of several, the last one counts.
fn batch(
    cursor: &mut Cursor<'_>,
    mark: IndexMark,
    events_max: usize,
    document: &mut Document,
) -> Result<(), Refused> {
    document.events.clear();
    if mark.byte == b'[' {
        document.shape = BodyShape::Batch;
        events(cursor, 2, events_max, document)
    } else {
        document.shape = BodyShape::NotABatch;
        cursor.value(mark, 1).map(|_| ())
    }
}

/// Reads the rest of a list of events whose bracket, the `depth`th that is open, was read.
fn events(
    cursor: &mut Cursor<'_>,
    depth: u32,
    events_max: usize,
    document: &mut Document,
) -> Result<(), Refused> {
    let Document { events, rare, .. } = document;
    cursor.check_depth(depth)?;
    let mut mark = cursor.next()?;
    if mark.byte == b']' {
        return Ok(());
    }
    loop {
        if events.len() > events_max {
            cursor.value(mark, depth)?;
        } else {
            events.push(EventSpans::default());
            let event = events.last_mut().ok_or(Refused)?;
            if mark.byte == b'{' {
                fields::event(cursor, mark, depth + 1, event, rare)?;
            } else {
                event.whole = cursor.value(mark, depth)?;
            }
        }
        match cursor.next()?.byte {
            b',' => mark = cursor.next()?,
            b']' => return Ok(()),
            _ => return Err(Refused),
        }
    }
}
