//! The names that mean something, for the rare key that is spelled with escapes.

use crate::text;

/// Every name that the walk looks for.
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

/// The name that a key with escapes spells, if it means something: `"\\u0065vent"` is `"event"`.
#[cold]
pub(super) fn spelled_with_escapes(raw: &[u8]) -> &'static [u8] {
    let mut name = String::new();
    if text::unescape(raw, &mut name).is_err() {
        // A lone surrogate is in none of our names.
        return b"";
    }
    let known = NAMES.iter().find(|known| **known == name);
    known.map_or(b"", |known| known.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds the list to the matches in the sources of the walk.
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
