//! The members of events and of their properties.

use super::Refused;
use super::cursor::{Cursor, Mark, Member};
use crate::span::{EventSpans, Kind, Options, Present, Properties, Span};

/// Reads one event, an object whose brace was read.
#[inline]
pub(super) fn event(
    cursor: &mut Cursor<'_>,
    open: Mark,
    depth: u32,
    spans: &mut EventSpans,
) -> Result<(), Refused> {
    cursor.check_depth(depth)?;
    let mut end = 0;
    let mut next = cursor.first_member(&mut end)?;
    while let Some(member) = next {
        let name = cursor.name(&member)?;
        event_field(cursor, name, member.value, depth, spans)?;
        next = cursor.next_member(&mut end)?;
    }
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
    cursor.check_depth(depth + 1)?;
    let mut end = 0;
    let mut next = cursor.first_member(&mut end)?;
    while let Some(member) = next {
        let name = cursor.name(&member)?;
        let value = cursor.value(member.value, depth + 1)?;
        match name {
            b"cookieless_mode" => options.cookieless_mode = value,
            b"process_person_profile" => options.process_person_profile = value,
            b"product_tour_id" => options.product_tour_id = value,
            b"disable_skew_correction" => options.disable_skew_correction = value,
            _ => {}
        }
        next = cursor.next_member(&mut end)?;
    }
    Ok(())
}

#[inline]
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
    cursor.check_depth(depth + 1)?;
    // A copy, so that it can be in registers in this hottest of loops.
    let mut local = *cursor;
    let mut end = 0;
    let mut next = local.first_member(&mut end)?;
    properties.is_empty = next.is_none();
    while let Some(member) = next {
        property(&mut local, member, depth + 1, properties)?;
        next = local.next_member(&mut end)?;
    }
    *cursor = local;
    properties.whole = Span::new(Kind::Object, mark.at, end + 1);
    Ok(())
}

/// Reads one property. Most names are none of ours, which their first byte (a backslash may
/// stand for any) or their length tells.
#[inline(always)]
fn property(
    cursor: &mut Cursor<'_>,
    member: Member,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    if matches!(cursor.name_begins_with(&member), b'$' | b'd' | b't' | b'\\') {
        known_property(cursor, member, depth, properties)
    } else {
        cursor.pass(member.value, depth)
    }
}

#[inline(always)]
fn known_property(
    cursor: &mut Cursor<'_>,
    member: Member,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    let name = cursor.name(&member)?;
    let mark = member.value;
    let present = match name.len() {
        3 if name == b"$ip" => Present::IP,
        4 if name == b"$set" => Present::SET,
        4 if name == b"$lib" => Present::LIB,
        5 if name == b"token" => {
            properties.token = cursor.value(mark, depth)?;
            return Ok(());
        }
        6 if name == b"$unset" => Present::UNSET,
        7 if name == b"$groups" => Present::GROUPS,
        9 if name == b"$set_once" => Present::SET_ONCE,
        10 if name == b"$window_id" => Present::WINDOW_ID,
        11 if name == b"distinct_id" => {
            properties.distinct_id = cursor.value(mark, depth)?;
            return Ok(());
        }
        11 if name == b"$session_id" => Present::SESSION_ID,
        12 if name == b"$distinct_id" => {
            properties.dollar_distinct_id = cursor.value(mark, depth)?;
            return Ok(());
        }
        12 if name == b"$lib_version" => Present::LIB_VERSION,
        14 if name == b"$geoip_disable" => {
            properties.geoip_disable = cursor.value(mark, depth)?.kind == Kind::True;
            return Ok(());
        }
        15 if name == b"$ignore_sent_at" => {
            properties.ignore_sent_at = cursor.value(mark, depth)?.kind == Kind::True;
            return Ok(());
        }
        16 if name == b"$cookieless_mode" => Present::COOKIELESS,
        16 if name == b"$product_tour_id" => Present::TOUR,
        23 if name == b"$process_person_profile" => Present::PERSON_PROFILE,
        _ => return cursor.pass(mark, depth),
    };
    properties.present.insert(present);
    cursor.pass(mark, depth)
}
