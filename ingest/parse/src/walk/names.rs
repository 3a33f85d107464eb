//! Names that the walk looks for, also where a key is spelled with escapes.

use crate::text;

/// All names that the walk looks for.
const NAMES: [&str; 35] = [
    "$cookieless_mode",
    "$distinct_id",
    "$geoip_disable",
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
    "$token",
    "$unset",
    "$window_id",
    "api_key",
    "batch",
    "cookieless_mode",
    "disable_skew_correction",
    "distinct_id",
    "event",
    "historical_migration",
    "offset",
    "options",
    "process_person_profile",
    "product_tour_id",
    "properties",
    "sentAt",
    "sent_at",
    "session_id",
    "timestamp",
    "token",
    "uuid",
    "window_id",
];

/// Bytes of the longest of the names.
const NAME_BYTES_MAX: usize = 23;
/// Lengths of the names, a bit each.
const LENGTHS: u32 = lengths();

#[allow(
    clippy::indexing_slicing,
    reason = "what is out of bounds does not compile"
)]
const fn lengths() -> u32 {
    let (mut lengths, mut nth) = (0, 0);
    while nth < NAMES.len() {
        lengths |= 1 << NAMES[nth].len();
        nth += 1;
    }
    lengths
}

/// First four bytes of the names that we look for among properties, each where [`slot`] has it.
const BEGINNINGS: [u32; SLOTS] = beginnings();
const SLOTS: usize = 64;
/// Multiplier of [`slot`], found by trying: no two beginnings come to the same slot.
const MULTIPLIER: u32 = 0x2265_b1f5;

#[allow(
    clippy::indexing_slicing,
    reason = "what is out of bounds does not compile"
)]
const fn beginnings() -> [u32; SLOTS] {
    let all = [
        *b"$coo", *b"$dis", *b"$geo", *b"$gro", *b"$ign", *b"$ip\"", *b"$lib", *b"$pro", *b"$ses",
        *b"$set", *b"$uns", *b"$win", *b"dist", *b"toke",
    ];
    let mut slots = [0; SLOTS];
    let mut nth = 0;
    while nth < all.len() {
        let beginning = u32::from_le_bytes(all[nth]);
        assert!(slots[slot(beginning)] == 0, "another multiplier is needed");
        slots[slot(beginning)] = beginning;
        nth += 1;
    }
    slots
}

/// Slot of a beginning.
#[inline]
const fn slot(beginning: u32) -> usize {
    (beginning.wrapping_mul(MULTIPLIER) >> 26) as usize
}

/// Returns true if the name of a property, of which these are the first four bytes, may be one that
/// we look for, if it is spelled without escapes.
#[inline]
pub(super) fn may_be_sought(beginning: [u8; 4]) -> bool {
    let beginning = u32::from_le_bytes(beginning);
    BEGINNINGS.get(slot(beginning)) == Some(&beginning)
}

/// Name that a key with escapes spells, if we look for it: `"\\u0065vent"` is `"event"`.
#[cold]
pub(super) fn spelled_with_escapes(raw: &[u8]) -> &'static [u8] {
    // The decoded name: all of our names are ASCII, and no longer.
    let mut name = [0; NAME_BYTES_MAX];
    let mut rest = raw;
    let mut len = 0;
    while let Some(first) = rest.first() {
        let Some(place) = name.get_mut(len) else {
            return b"";
        };
        let (byte, read) = match first {
            b'\\' => match text::escaped(rest) {
                Ok((character, read)) => (u8::try_from(character), read),
                // A lone surrogate is in none of our names.
                Err(_) => return b"",
            },
            byte => (Ok(*byte), 1),
        };
        let Ok(byte) = byte else { return b"" };
        *place = byte;
        len += 1;
        rest = rest.get(read..).unwrap_or_default();
    }
    if LENGTHS >> len & 1 == 0 {
        return b"";
    }
    let name = name.get(..len).unwrap_or_default();
    let known = NAMES.iter().find(|known| known.as_bytes() == name);
    known.map_or(b"", |known| known.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_known_properties_are_sought() {
        let source = include_str!("fields.rs");
        let (_, known) = source.split_once("fn known_property").unwrap();
        let names: Vec<&str> = known
            .split("name == b\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names.len(), 17);
        for name in names {
            let quoted = format!("{name}\"");
            assert!(
                may_be_sought(*quoted.as_bytes().first_chunk().unwrap()),
                "{name}"
            );
        }
        for name in [*b"$os\"", *b"plan", *b"$bro"] {
            assert!(!may_be_sought(name));
        }
    }

    #[test]
    fn names_with_escapes_are_the_same_names() {
        for name in NAMES {
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            let units = name.bytes().map(|byte| format!("\\u{byte:04x}"));
            let all: String = units.collect();
            let first = format!("\\u{:04X}{}", name.as_bytes()[0], &name[1..]);
            for raw in [all, first] {
                assert_eq!(spelled_with_escapes(raw.as_bytes()), name.as_bytes());
            }
        }
        for raw in [
            "",
            "\\n",
            "event\\u0020",
            "\\u0065ven",
            "\\ud83devent",
            "\\u00e9vent",
        ] {
            assert_eq!(spelled_with_escapes(raw.as_bytes()), b"", "{raw}");
        }
        let long = "\\u0065".repeat(100);
        assert_eq!(spelled_with_escapes(long.as_bytes()), b"");
    }

    /// Compares the list with the matches in the sources of the walk.
    #[test]
    fn every_name_the_walk_looks_for_is_listed() {
        let sources = [include_str!("fields.rs"), include_str!("envelope.rs")].concat();
        let mut looked_for: Vec<&str> = sources
            .split(" b\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(name, _)| name)
            .collect();
        looked_for.sort_unstable();
        looked_for.dedup();
        assert_eq!(looked_for, NAMES);
    }
}
