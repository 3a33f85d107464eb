//! The members of events and of their properties.

use super::Refused;
use super::cursor::{Cursor, Mark};
use crate::span::{EventSpans, Kind, Options, Present, Properties, Span};
use crate::text;

/// Reads the rest of an object whose brace, the `depth`th bracket that is open, was read. Calls
/// `member` with the name and the mark of the value, which it must move past. Returns the offset
/// of the closing brace.
#[inline(always)]
pub(super) fn members<'a>(
    cursor: &mut Cursor<'a>,
    depth: u32,
    member: &mut impl FnMut(&mut Cursor<'a>, &[u8], Mark) -> Result<(), Refused>,
) -> Result<usize, Refused> {
    cursor.check_depth(depth)?;
    let mut mark = cursor.next()?;
    if mark.byte == b'}' {
        return Ok(mark.at);
    }
    loop {
        let key = cursor.key(mark)?;
        let value = cursor.next()?;
        if key.kind == Kind::String {
            member(cursor, cursor.bytes(key), value)?;
        } else {
            escaped_member(cursor, key, value, member)?;
        }
        mark = cursor.next()?;
        match mark.byte {
            b',' => mark = cursor.next()?,
            b'}' => return Ok(mark.at),
            _ => return Err(Refused),
        }
    }
}

/// `"\u0065vent"` names the same key as `"event"`.
#[cold]
fn escaped_member<'a>(
    cursor: &mut Cursor<'a>,
    key: Span,
    value: Mark,
    member: &mut impl FnMut(&mut Cursor<'a>, &[u8], Mark) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let mut name = String::new();
    // A lone surrogate names none of our keys.
    match text::unescape(cursor.bytes(key), &mut name) {
        Ok(()) => member(cursor, name.as_bytes(), value),
        Err(_) => member(cursor, b"", value),
    }
}

/// Reads one event, an object whose brace was read.
pub(super) fn event(
    cursor: &mut Cursor<'_>,
    open: Mark,
    depth: u32,
    spans: &mut EventSpans,
) -> Result<(), Refused> {
    let end = members(cursor, depth, &mut |cursor, name, mark| {
        event_field(cursor, name, mark, depth, spans)
    })?;
    spans.whole = Span::new(Kind::Object, open.at, end + 1);
    Ok(())
}

/// Reads the value of one field of an event; of several with one name, the last one counts.
#[inline(always)]
pub(super) fn event_field(
    cursor: &mut Cursor<'_>,
    name: &[u8],
    mark: Mark,
    depth: u32,
    spans: &mut EventSpans,
) -> Result<(), Refused> {
    if name == b"properties" {
        return properties(cursor, mark, depth, &mut spans.properties);
    }
    if name == b"options" {
        return options(cursor, mark, depth, &mut spans.options);
    }
    let value = cursor.value(mark, depth)?;
    let field = match name {
        b"event" => &mut spans.event,
        b"distinct_id" => &mut spans.distinct_id,
        b"$distinct_id" => &mut spans.dollar_distinct_id,
        b"timestamp" => &mut spans.timestamp,
        b"uuid" => &mut spans.uuid,
        b"$set" => &mut spans.set,
        b"$set_once" => &mut spans.set_once,
        b"$unset" => &mut spans.unset,
        b"$groups" => &mut spans.groups,
        b"offset" => &mut spans.offset,
        b"api_key" => &mut spans.api_key,
        b"token" => &mut spans.token,
        b"$token" => &mut spans.dollar_token,
        b"historical_migration" => &mut spans.historical_migration,
        b"session_id" => &mut spans.session_id,
        b"window_id" => &mut spans.window_id,
        _ => return Ok(()),
    };
    *field = value;
    Ok(())
}

#[inline(never)]
fn options(
    cursor: &mut Cursor<'_>,
    mark: Mark,
    depth: u32,
    options: &mut Options,
) -> Result<(), Refused> {
    *options = Options::default();
    if mark.byte != b'{' {
        return cursor.value(mark, depth).map(|_| ());
    }
    members(cursor, depth + 1, &mut |cursor, name, mark| {
        let value = cursor.value(mark, depth + 1)?;
        match name {
            b"cookieless_mode" => options.cookieless_mode = value,
            b"process_person_profile" => options.process_person_profile = value,
            b"product_tour_id" => options.product_tour_id = value,
            b"disable_skew_correction" => options.disable_skew_correction = value,
            _ => {}
        }
        Ok(())
    })
    .map(|_| ())
}

#[inline(always)]
fn properties(
    cursor: &mut Cursor<'_>,
    mark: Mark,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    *properties = Properties::default();
    if mark.byte != b'{' {
        properties.whole = cursor.value(mark, depth)?;
        return Ok(());
    }
    let mut is_empty = true;
    let end = members(cursor, depth + 1, &mut |cursor, name, mark| {
        is_empty = false;
        property(cursor, name, mark, depth + 1, properties)
    })?;
    properties.is_empty = is_empty;
    properties.whole = Span::new(Kind::Object, mark.at, end + 1);
    Ok(())
}

/// Reads one property. Most names are none of ours, which their length mostly tells.
#[inline(always)]
fn property(
    cursor: &mut Cursor<'_>,
    name: &[u8],
    mark: Mark,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    let value = cursor.value(mark, depth)?;
    let present = match name {
        b"distinct_id" => {
            properties.distinct_id = value;
            return Ok(());
        }
        b"$distinct_id" => {
            properties.dollar_distinct_id = value;
            return Ok(());
        }
        b"token" => {
            properties.token = value;
            return Ok(());
        }
        b"$geoip_disable" => {
            properties.geoip_disable = value.kind == Kind::True;
            return Ok(());
        }
        b"$ignore_sent_at" => {
            properties.ignore_sent_at = value.kind == Kind::True;
            return Ok(());
        }
        b"$ip" => Present::IP,
        b"$set" => Present::SET,
        b"$set_once" => Present::SET_ONCE,
        b"$unset" => Present::UNSET,
        b"$groups" => Present::GROUPS,
        b"$session_id" => Present::SESSION_ID,
        b"$window_id" => Present::WINDOW_ID,
        b"$cookieless_mode" => Present::COOKIELESS,
        b"$process_person_profile" => Present::PERSON_PROFILE,
        b"$lib" => Present::LIB,
        b"$lib_version" => Present::LIB_VERSION,
        b"$product_tour_id" => Present::TOUR,
        _ => return Ok(()),
    };
    properties.present.insert(present);
    Ok(())
}
