//! What an event says of a person or a group, as a row beside its own.
//!
//! Most events say nothing, and pay for a few comparisons only. What an event says is taken as it
//! was sent; what becomes of it is decided where rows are applied, in the order of their arrival.
//! Nothing here refuses an event: one that says nonsense of a person is stored, and the nonsense is
//! not.

use crate::judge::{Accepted, NAME_CHARS_MAX, Rules, is_illegal};
use crate::rows::Rows;
use crate::span::{Event, Kind, Present, Span};
use millrace_rows::{Micros, PersonUpdateRow, UpdateKind};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// Characters of a group's type and of its key, at most.
const GROUP_CHARS_MAX: usize = 400;

/// Events that never change persons, whatever they have with them.
const NEVER: [&[u8]; 2] = [b"$exception", b"$$heatmap"];

/// Whether an event may say anything of a person or a group.
#[inline]
pub fn is_touched(spans: Event<'_>, event: &[u8]) -> bool {
    // What is null is sorted out later.
    let rare = spans.rare;
    let beside = [rare.set, rare.set_once, rare.unset].map(|span| span.kind() as u8);
    (spans.has_rare() && beside != [Kind::Absent as u8; 3])
        || spans.properties.present.has(Present::OF_PERSON)
        || matches!(event, [b'$', b'i' | b'c' | b'm' | b'g', ..])
}

/// What an event's name means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Merge(UpdateKind),
    Group,
}

impl Meaning {
    fn of(event: &[u8]) -> Option<Self> {
        Some(match event {
            b"$identify" => Self::Merge(UpdateKind::Identify),
            b"$create_alias" => Self::Merge(UpdateKind::Alias),
            b"$merge_dangerously" => Self::Merge(UpdateKind::Merge),
            b"$groupidentify" | b"$group_identify" => Self::Group,
            _ => return None,
        })
    }
}

/// Where an event is among all.
#[derive(Clone, Copy)]
pub struct Place {
    pub created_at: Micros,
    pub index: u32,
}

/// Room for the ids that an event names beside its own.
#[derive(Debug, Default)]
pub struct Said {
    other_id: String,
    group_type: String,
    group_key: String,
}

impl Said {
    /// Appends the row of what an event says, if it says anything that counts.
    #[inline(never)]
    pub fn put(
        &mut self,
        rows: &mut Rows,
        rules: &Rules<'_>,
        spans: Event<'_>,
        accepted: Accepted<'_>,
        at: Place,
    ) {
        if let Some(row) = self.update(rules, spans, &accepted, at) {
            rows.push_person_update(&row);
        }
    }

    fn update<'s>(
        &'s mut self,
        rules: &Rules<'s>,
        spans: Event<'_>,
        accepted: &Accepted<'s>,
        at: Place,
    ) -> Option<PersonUpdateRow<'s>> {
        let names = match spans.properties.whole.kind() {
            Kind::Object => Names::of(spans.properties.whole.of(rules.body)),
            _ => Names::default(),
        };
        if names.is_personless(rules, spans) || NEVER.contains(&accepted.event) {
            return None;
        }
        let mut row = PersonUpdateRow {
            team_id: rules.team_id,
            created_at: at.created_at,
            request_id: rules.request_id,
            index: at.index,
            uuid: accepted.uuid,
            timestamp: accepted.timestamp,
            kind: UpdateKind::Properties,
            distinct_id: "",
            other_id: "",
            person_set: b"",
            person_set_once: b"",
            person_unset: b"",
            group_type: "",
            group_key: "",
            group_set: b"",
        };
        let meaning = Meaning::of(accepted.event);
        // Text, so this cannot fail.
        let distinct_id = std::str::from_utf8(accepted.distinct_id).unwrap_or_default();
        if !accepted.remarks.illegal_distinct_id {
            names.set_properties(&mut row, rules, spans);
            let says = [row.person_set, row.person_set_once, row.person_unset];
            let has_properties = !says.iter().all(|text| text.is_empty());
            if has_properties || matches!(meaning, Some(Meaning::Merge(_))) {
                row.distinct_id = distinct_id;
            }
            if let Some(Meaning::Merge(kind)) = meaning
                && !is_nobody(distinct_id)
            {
                if names.merges(kind, distinct_id, &mut self.other_id) {
                    row.kind = kind;
                    row.other_id = &self.other_id;
                } else if kind == UpdateKind::Identify && !spans.event.is_none() {
                    // It names its user all the same. One that only stands for its path, `/engage`,
                    // says properties, also of those who are anonymous.
                    row.kind = kind;
                }
            }
        }
        if meaning == Some(Meaning::Group)
            && let Some(group_set) = names.group(&mut self.group_type, &mut self.group_key)
        {
            row.group_type = &self.group_type;
            row.group_key = &self.group_key;
            row.group_set = group_set;
        }
        let is_of_any = !row.distinct_id.is_empty() || !row.group_type.is_empty();
        is_of_any.then_some(row)
    }
}

/// What of an event's properties is about persons and groups, as JSON.
#[derive(Default)]
struct Names<'b> {
    set: Option<&'b RawValue>,
    set_once: Option<&'b RawValue>,
    unset: Option<&'b RawValue>,
    process_person_profile: Option<&'b RawValue>,
    anonymous: Option<&'b RawValue>,
    alias: Option<&'b RawValue>,
    group_type: Option<&'b RawValue>,
    group_key: Option<&'b RawValue>,
    group_set: Option<&'b RawValue>,
}

impl<'b> Names<'b> {
    /// Of an object that is known to be JSON; of several with one name the last one counts.
    fn of(properties: &'b [u8]) -> Self {
        // All of a body was found to be UTF-8; what is read as bytes is checked piece by piece.
        let properties = std::str::from_utf8(properties).unwrap_or_default();
        let mut input = serde_json::Deserializer::from_str(properties);
        input.deserialize_map(NamesVisitor).unwrap_or_default()
    }

    /// Whether the client wants no person to be touched.
    fn is_personless(&self, rules: &Rules<'_>, spans: Event<'_>) -> bool {
        match self.process_person_profile {
            Some(said) => said.get() == "false",
            None => rules.is_v1 && spans.rare.options.process_person_profile.kind() == Kind::False,
        }
    }

    /// Fills in the properties that the event has for its person. What is beside the properties
    /// counts unless there is the same in them, as that is how they are stored.
    fn set_properties(&self, row: &mut PersonUpdateRow<'b>, rules: &Rules<'b>, spans: Event<'_>) {
        let chosen = |within: Option<&'b RawValue>, beside: Span| {
            within.map_or(beside.of(rules.body), |value| value.get().as_bytes())
        };
        row.person_set = members(chosen(self.set, spans.rare.set));
        row.person_set_once = members(chosen(self.set_once, spans.rare.set_once));
        let unset = chosen(self.unset, spans.rare.unset);
        row.person_unset = if unset.starts_with(b"[") && unset.len() > 2 {
            unset
        } else {
            members(unset)
        };
    }

    /// Whether the event names another id, which may be somebody's; writes it.
    fn merges(&self, kind: UpdateKind, distinct_id: &str, other_id: &mut String) -> bool {
        let named = match kind {
            UpdateKind::Identify => self.anonymous,
            _ => self.alias,
        };
        id(named, NAME_CHARS_MAX, other_id) && other_id != distinct_id && !is_nobody(other_id)
    }

    /// The properties of the group that the event describes, if it does; writes its names.
    fn group(&self, group_type: &mut String, group_key: &mut String) -> Option<&'b [u8]> {
        if !id(self.group_type, GROUP_CHARS_MAX, group_type)
            || !id(self.group_key, GROUP_CHARS_MAX, group_key)
        {
            return None;
        }
        match self.group_set.map(RawValue::get) {
            None | Some("null") => Some(b""),
            Some(text) if text.starts_with('{') => Some(text.as_bytes()),
            Some(_) => None,
        }
    }
}

/// The text of an object that is not empty; nothing for anything else.
fn members(json: &[u8]) -> &[u8] {
    if json.starts_with(b"{") && json.len() > 2 {
        json
    } else {
        b""
    }
}

/// Writes the text of a string or a number, if it may be an id.
fn id(value: Option<&RawValue>, chars_max: usize, out: &mut String) -> bool {
    let Some(json) = value.map(RawValue::get) else {
        return false;
    };
    out.clear();
    match json.as_bytes().first() {
        // Half of a surrogate pair is no text.
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) => out.push_str(text.trim()),
            Err(_) => return false,
        },
        Some(b'-' | b'0'..=b'9') => out.push_str(json),
        _ => return false,
    }
    !out.is_empty() && !out.contains('\0') && out.chars().count() <= chars_max
}

/// Whether an id is nobody's: then nobody is merged with it. Clients send such ids in quotes, too.
fn is_nobody(id: &str) -> bool {
    let inner = ['"', '\''].into_iter().find_map(|quote| {
        let inner = id.strip_prefix(quote)?;
        inner.strip_suffix(quote)
    });
    let inner = inner.unwrap_or(id).trim();
    inner.is_empty() || is_illegal(inner.as_bytes())
}

struct NamesVisitor;

impl<'b> Visitor<'b> for NamesVisitor {
    type Value = Names<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Names<'b>, A::Error> {
        let mut names = Names::default();
        while let Some(Name(name)) = map.next_key()? {
            let slot = match name {
                Some(Known::Set) => &mut names.set,
                Some(Known::SetOnce) => &mut names.set_once,
                Some(Known::Unset) => &mut names.unset,
                Some(Known::ProcessPersonProfile) => &mut names.process_person_profile,
                Some(Known::Anonymous) => &mut names.anonymous,
                Some(Known::Alias) => &mut names.alias,
                Some(Known::GroupType) => &mut names.group_type,
                Some(Known::GroupKey) => &mut names.group_key,
                Some(Known::GroupSet) => &mut names.group_set,
                None => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *slot = Some(map.next_value()?);
        }
        Ok(names)
    }
}

/// A key, read as bytes, as one that is no text must not spoil the others.
struct Name(Option<Known>);

enum Known {
    Set,
    SetOnce,
    Unset,
    ProcessPersonProfile,
    Anonymous,
    Alias,
    GroupType,
    GroupKey,
    GroupSet,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Name, E> {
        Ok(Name(match name {
            b"$set" => Some(Known::Set),
            b"$set_once" => Some(Known::SetOnce),
            b"$unset" => Some(Known::Unset),
            b"$process_person_profile" => Some(Known::ProcessPersonProfile),
            b"$anon_distinct_id" => Some(Known::Anonymous),
            b"alias" => Some(Known::Alias),
            b"$group_type" => Some(Known::GroupType),
            b"$group_key" => Some(Known::GroupKey),
            b"$group_set" => Some(Known::GroupSet),
            _ => None,
        }))
    }
}
