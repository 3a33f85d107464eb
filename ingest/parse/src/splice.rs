//! Properties as they are stored: as they were sent, with additions spliced in as text at the
//! front.

use crate::span::{Event, Kind, Present, Span};
use crate::validate::Rules;
use std::net::IpAddr;

/// Bytes of the name or the version of an SDK that are kept: both are copied into every event of a
/// request, and no SDK has a tenth of it.
const LIB_BYTES_MAX: usize = 128;
/// Bytes of an address, and of the names, quotes and commas of what is added.
const NAMES_BYTES: usize = 84;
/// Most bytes that a request's head adds to each of its events in v1: both parts of the SDK's name,
/// each byte of them escaped, and an address, with their names.
const SPLICED_BYTES_MAX: usize = 2 * 2 * LIB_BYTES_MAX + NAMES_BYTES;

/// Most bytes that this head adds to each of a request's events in v1. Without one there is an
/// address at most, for which any event has space.
pub fn spliced_bytes_max(sdk_info: Option<&str>) -> usize {
    let spliced = |info: &str| SPLICED_BYTES_MAX.min(2 * info.len() + NAMES_BYTES);
    sdk_info.map_or(0, spliced)
}

/// Additions to the properties of a request's events.
#[derive(Debug, Default)]
pub struct Splicer {
    /// `{"$ip":"192.0.2.1",`: what properties begin with instead of `{`; empty when no address
    /// is to be stored.
    with_ip: Vec<u8>,
    /// `"$lib":"posthog-python","$lib_version":"7.91.1"` in parts, for v1.
    lib: Vec<u8>,
    lib_version: Vec<u8>,
    scratch: Vec<u8>,
}

impl Splicer {
    /// Gets ready for a request.
    pub fn start(&mut self, ip: Option<IpAddr>, sdk_info: Option<&str>) {
        use std::io::Write as _;
        self.with_ip.clear();
        if let Some(ip) = ip {
            // Writing to memory does not fail.
            let _ = write!(self.with_ip, "{{\"$ip\":\"{}\",", ip.to_canonical());
        }
        self.lib.clear();
        self.lib_version.clear();
        let (lib, version) = sdk_info
            .and_then(|info| info.split_once('/'))
            .unwrap_or_default();
        for (out, value) in [(&mut self.lib, lib), (&mut self.lib_version, version)] {
            let kept = value.get(..value.floor_char_boundary(LIB_BYTES_MAX));
            if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
                // Neither does writing a string as JSON.
                let _ = serde_json::to_writer(out, kept);
            }
        }
    }

    /// Pieces of an event's properties, to be stored one after the other.
    #[inline]
    pub fn pieces<'p>(&'p mut self, rules: &Rules<'p>, spans: Event<'_>) -> [&'p [u8]; 2] {
        let properties = &spans.properties;
        let raw = match properties.whole.kind() {
            Kind::Object => properties.whole.of(rules.body),
            _ => b"{}",
        };
        let wants_ip = !self.with_ip.is_empty()
            && !properties.geoip_disable
            && !properties.present.has(Present::IP);
        let rare = spans.rare;
        let moves = [rare.set, rare.set_once, rare.unset, rare.groups];
        let has_moves = spans.has_rare() && !moves.iter().all(Span::is_none);
        let is_plain = !has_moves && !rules.is_v1;
        let is_empty = properties.is_empty || properties.whole.kind() != Kind::Object;
        if is_plain && !wants_ip {
            return [raw, b""];
        }
        let rest = raw.get(1..).unwrap_or_default();
        if is_plain && !is_empty {
            return [&self.with_ip, rest];
        }
        self.build(rules, spans, wants_ip, is_empty);
        if self.scratch.len() <= 1 {
            return [raw, b""];
        }
        [&self.scratch, rest]
    }

    /// Writes the opening brace and all additions to `scratch`.
    #[cold]
    fn build(&mut self, rules: &Rules<'_>, spans: Event<'_>, wants_ip: bool, is_empty: bool) {
        self.scratch.clear();
        if wants_ip {
            self.scratch.extend_from_slice(&self.with_ip);
        } else {
            self.scratch.push(b'{');
        }
        let moved = [
            (spans.rare.set, "$set", Present::SET),
            (spans.rare.set_once, "$set_once", Present::SET_ONCE),
            (spans.rare.unset, "$unset", Present::UNSET),
            (spans.rare.groups, "$groups", Present::GROUPS),
        ];
        self.add_all(&moved, rules, spans);
        if rules.is_v1 {
            self.add_v1(rules, spans);
        }
        if is_empty && self.scratch.last() == Some(&b',') {
            self.scratch.pop();
        }
    }

    /// Adds the fields that the v1 protocol keeps beside the properties and in headers.
    fn add_v1(&mut self, rules: &Rules<'_>, spans: Event<'_>) {
        let options = &spans.rare.options;
        let fields = [
            (spans.rare.session_id, "$session_id", Present::SESSION_ID),
            (spans.rare.window_id, "$window_id", Present::WINDOW_ID),
            (
                options.cookieless_mode,
                "$cookieless_mode",
                Present::COOKIELESS,
            ),
            (
                options.process_person_profile,
                "$process_person_profile",
                Present::PERSON_PROFILE,
            ),
            (options.product_tour_id, "$product_tour_id", Present::TOUR),
        ];
        self.add_all(&fields, rules, spans);
        let present = spans.properties.present;
        if !self.lib.is_empty() && !present.has(Present::LIB) {
            add(&mut self.scratch, "$lib", &self.lib);
        }
        if !self.lib_version.is_empty() && !present.has(Present::LIB_VERSION) {
            add(&mut self.scratch, "$lib_version", &self.lib_version);
        }
    }

    fn add_all(&mut self, fields: &[(Span, &str, Present)], rules: &Rules<'_>, spans: Event<'_>) {
        for (span, name, present) in fields {
            if !span.is_none() && !spans.properties.present.has(*present) {
                add(&mut self.scratch, name, span.json(rules.body));
            }
        }
    }
}

fn add(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
    out.push(b',');
}
