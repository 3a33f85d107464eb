//! Properties that a client sent twice under one name.
//!
//! For a name of ours the last one counts, as in every JSON parser that clients use, and as the
//! columns of the row and the update of the person have it. ClickHouse reads the first of several,
//! so the others are left out of the row. Properties of the user's are stored as they were sent: to
//! find one that is there twice, each name of each event would have to be kept.

use crate::walk::spelled_with_escapes;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Names that the walk notes among properties, see [`Present`](crate::span::Present).
const NAMES: [&str; 22] = [
    "$anon_distinct_id",
    "$cookieless_mode",
    "$distinct_id",
    "$geoip_disable",
    "$group_key",
    "$group_set",
    "$group_type",
    "$groups",
    "$ignore_sent_at",
    "$ip",
    "$lib",
    "$lib_version",
    "$process_person_profile",
    "$product_tour_id",
    "$session_id",
    "$set",
    "$set_once",
    "$unset",
    "$window_id",
    "alias",
    "distinct_id",
    "token",
];

/// Member of an object: its name with the quotes, and its value.
type Member<'b> = (&'b RawValue, &'b RawValue);

/// Writes an object that is known to be JSON, of several members with one name of ours the last.
#[cold]
pub fn write_last(object: &[u8], out: &mut Vec<u8>) {
    out.clear();
    // All of a body was found to be UTF-8.
    let text = std::str::from_utf8(object).unwrap_or_default();
    let mut input = serde_json::Deserializer::from_str(text);
    let Ok(members) = input.deserialize_map(MembersVisitor) else {
        return out.extend_from_slice(object);
    };
    let mut last = [0; NAMES.len()];
    let numbers: Vec<Option<u8>> = members.iter().map(|(name, _)| nth(name)).collect();
    for (at, nth) in numbers.iter().enumerate() {
        if let Some(last) = nth.and_then(|nth| last.get_mut(usize::from(nth))) {
            *last = at;
        }
    }
    out.push(b'{');
    for (at, ((name, value), nth)) in members.iter().zip(numbers).enumerate() {
        let last = nth.and_then(|nth| last.get(usize::from(nth)));
        if last.is_some_and(|last| *last != at) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(name.get().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// Number of a name of ours.
fn nth(name: &RawValue) -> Option<u8> {
    let unquoted = name.get().strip_prefix('"')?.strip_suffix('"')?;
    // Most names of others end here.
    if !unquoted.starts_with(['$', 'a', 'd', 't', '\\']) {
        return None;
    }
    let spelled = spelled_with_escapes(unquoted.as_bytes());
    let nth = NAMES.iter().position(|name| name.as_bytes() == spelled)?;
    u8::try_from(nth).ok()
}

struct MembersVisitor;

impl<'b> Visitor<'b> for MembersVisitor {
    type Value = Vec<Member<'b>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Vec<Member<'b>>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the list with the matches in the source of the walk.
    #[test]
    fn every_property_that_the_walk_notes_is_listed() {
        let source = include_str!("walk/fields.rs");
        let (_, known) = source.split_once("fn known_property").unwrap();
        let mut noted: Vec<&str> = known
            .split("name == b\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(name, _)| name)
            .collect();
        noted.sort_unstable();
        assert_eq!(noted, NAMES);
    }

    #[test]
    fn of_members_with_a_name_of_ours_the_last_is_written() {
        let table = [
            ("{}", "{}"),
            (r#"{"$ip":1}"#, r#"{"$ip":1}"#),
            (r#"{"$ip":1,"$ip":2}"#, r#"{"$ip":2}"#),
            (
                r#"{ "$set" : {"$ip":1,"$ip":2} , "a" : "b" ,"a": [1, 2], "$set": 1e999 }"#,
                r#"{"a":"b","a":[1, 2],"$set":1e999}"#,
            ),
            (
                r#"{"\u0024ip":1,"\ud83d":"\ud83d","$ip":2,"alias":3}"#,
                r#"{"\ud83d":"\ud83d","$ip":2,"alias":3}"#,
            ),
            (r#"{"event":1,"event":2}"#, r#"{"event":1,"event":2}"#),
            (r#"{"$ip":1,"\u0024i\u0070":2}"#, r#"{"\u0024i\u0070":2}"#),
        ];
        let mut out = b"of before".to_vec();
        for (object, expected) in table {
            write_last(object.as_bytes(), &mut out);
            assert_eq!(std::str::from_utf8(&out), Ok(expected), "{object}");
        }
    }
}
