//! Members of events and of their properties.

use super::cursor::{Cursor, IndexMark, Member};
use crate::characters::Refused;
use crate::span::{EventSpans, Kind, Options, Present, Properties, Rare, RareSpans, Span};

/// Reads one event, an object whose brace was read.
#[inline]
pub(super) fn event(
    cursor: &mut Cursor<'_>,
    open: IndexMark,
    depth: u32,
    spans: &mut EventSpans,
    rare: &mut Rare,
) -> Result<(), Refused> {
    cursor.check_depth(depth)?;
    let mut end = 0;
    let mut next = cursor.first_member(&mut end)?;
    while let Some(member) = next {
        let name = cursor.name(&member)?;
        event_field(cursor, name, member.value, depth, spans, rare)?;
        next = cursor.next_member(&mut end)?;
    }
    spans.whole = cursor.span(Kind::Object, open, end);
    Ok(())
}

/// Reads the value of one field of an event; of several with one name, the last one counts.
#[inline(always)]
pub(super) fn event_field(
    cursor: &mut Cursor<'_>,
    name: &[u8],
    mark: IndexMark,
    depth: u32,
    spans: &mut EventSpans,
    rare: &mut Rare,
) -> Result<(), Refused> {
    if name == b"properties" {
        return properties(cursor, mark, depth, &mut spans.properties);
    }
    if name == b"options" {
        let rare = rare.of(spans).ok_or(Refused)?;
        return options(cursor, mark, depth, &mut rare.options);
    }
    let value = cursor.value(mark, depth)?;
    match name {
        b"event" => spans.event = value,
        b"distinct_id" => spans.distinct_id = value,
        b"timestamp" => spans.timestamp = value,
        b"uuid" => spans.uuid = value,
        _ => return rare_field(name, value, spans, rare),
    }
    Ok(())
}

/// Notes a field that few events have, or that is not used.
#[inline(never)]
fn rare_field(
    name: &[u8],
    value: Span,
    spans: &mut EventSpans,
    rare: &mut Rare,
) -> Result<(), Refused> {
    let field: fn(&mut RareSpans) -> &mut Span = match name {
        b"$distinct_id" => |rare| &mut rare.dollar_distinct_id,
        b"$set" => |rare| &mut rare.set,
        b"$set_once" => |rare| &mut rare.set_once,
        b"$unset" => |rare| &mut rare.unset,
        b"$groups" => |rare| &mut rare.groups,
        b"offset" => |rare| &mut rare.offset,
        b"api_key" => |rare| &mut rare.api_key,
        b"token" => |rare| &mut rare.token,
        b"$token" => |rare| &mut rare.dollar_token,
        b"historical_migration" => |rare| &mut rare.historical_migration,
        b"session_id" => |rare| &mut rare.session_id,
        b"window_id" => |rare| &mut rare.window_id,
        _ => return Ok(()),
    };
    *field(rare.of(spans).ok_or(Refused)?) = value;
    Ok(())
}

#[inline(never)]
fn options(
    cursor: &mut Cursor<'_>,
    mark: IndexMark,
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
    mark: IndexMark,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    *properties = Properties::default();
    if mark.byte != b'{' {
        properties.whole = cursor.value(mark, depth)?;
        return Ok(());
    }
    cursor.check_depth(depth + 1)?;
    let mut end = 0;
    let mut opener = b'{';
    loop {
        let next = if cursor.pass_plain_members(opener) || opener == b',' {
            cursor.next_member(&mut end)?
        } else {
            let first = cursor.first_member(&mut end)?;
            properties.is_empty = first.is_none();
            first
        };
        let Some(member) = next else { break };
        property(cursor, member, depth + 1, properties)?;
        opener = b',';
    }
    properties.whole = cursor.span(Kind::Object, mark, end);
    Ok(())
}

/// Reads one property that is not like most. Names that are none of ours are told by their first
/// byte (a backslash may stand for any) or their length.
#[inline(never)]
fn property(
    cursor: &mut Cursor<'_>,
    member: Member,
    depth: u32,
    properties: &mut Properties,
) -> Result<(), Refused> {
    cursor.forget_escapes_before(&member);
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
            properties.geoip_disable = cursor.value(mark, depth)?.kind() == Kind::True;
            return Ok(());
        }
        15 if name == b"$ignore_sent_at" => {
            properties.ignore_sent_at = cursor.value(mark, depth)?.kind() == Kind::True;
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
