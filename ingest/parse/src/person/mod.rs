//! Updates of persons and groups, as rows beside those of the events.
//!
//! Most events update nothing, and pay for a few comparisons only. Values are taken as they were
//! sent; their effect is decided where rows are applied, in the order of their arrival. Nothing
//! here refuses an event: one with nonsense about a person is stored, and the nonsense is not.
//! Properties that no person could have are passed on as well, to be refused in the same place as
//! those that are too many for this person; the client is warned of them.

mod size;

use crate::rows::Rows;
use crate::span::{Event, Kind, Present, Span};
use crate::validate::{Accepted, NAME_CHARS_MAX, Rules, is_illegal, is_zero};
use millrace_rows::{Micros, PersonUpdateRow, UpdateKind};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// Characters of a group's type and of its key, at most.
const GROUP_CHARS_MAX: usize = 400;

/// Events that never change persons, whatever their properties.
const NEVER: [&[u8]; 2] = [b"$exception", b"$$heatmap"];

/// Returns true if an event may update a person or a group.
#[inline]
pub fn is_touched(spans: Event<'_>, event: &[u8]) -> bool {
    // Null is sorted out later.
    let rare = spans.rare;
    let beside = [rare.set, rare.set_once, rare.unset].map(|span| span.kind() as u8);
    (spans.has_rare() && beside != [Kind::Absent as u8; 3])
        || spans.properties.present.has(Present::OF_PERSON)
        || matches!(event, [b'$', b'i' | b'c' | b'm' | b'g', ..])
}

/// Kind of update that an event's name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeKind {
    Merge(UpdateKind),
    Group,
}

impl MergeKind {
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

/// Time and index of an event's row.
#[derive(Clone, Copy)]
pub struct RowPosition {
    pub created_at: Micros,
    pub index: u32,
}

/// Scratch space for the ids that an event names beside its own.
#[derive(Debug, Default)]
pub struct PersonUpdateScratch {
    other_id: String,
    group_type: String,
    group_key: String,
}

impl PersonUpdateScratch {
    /// Appends the update of an event, if it has one that counts. Returns true if it sets more
    /// properties than a person or group may have.
    #[inline(never)]
    pub fn put(
        &mut self,
        rows: &mut Rows,
        rules: &Rules<'_>,
        spans: Event<'_>,
        accepted: Accepted<'_>,
        at: RowPosition,
    ) -> bool {
        let Some(row) = self.update(rules, spans, &accepted, at) else {
            return false;
        };
        rows.push_person_update(&row);
        size::is_too_large([row.person_set, row.person_set_once])
            || size::is_too_large([row.group_set, b""])
    }

    fn update<'s>(
        &'s mut self,
        rules: &Rules<'s>,
        spans: Event<'_>,
        accepted: &Accepted<'s>,
        at: RowPosition,
    ) -> Option<PersonUpdateRow<'s>> {
        let person = match spans.properties.whole.kind() {
            Kind::Object => PersonProperties::of(spans.properties.whole.of(rules.body)),
            _ => PersonProperties::default(),
        };
        if person.is_personless(rules, spans) || NEVER.contains(&accepted.event) {
            return None;
        }
        let mut row = PersonUpdateRow {
            team_id: rules.project_id,
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
        let merge_kind = MergeKind::of(accepted.event);
        // Text, so this cannot fail.
        let distinct_id = std::str::from_utf8(accepted.distinct_id).unwrap_or_default();
        if !accepted.warnings.illegal_distinct_id {
            person.set_properties(&mut row, rules, spans);
            let changes = [row.person_set, row.person_set_once, row.person_unset];
            let has_properties = !changes.iter().all(|text| text.is_empty());
            if has_properties || matches!(merge_kind, Some(MergeKind::Merge(_))) {
                row.distinct_id = distinct_id;
            }
            if let Some(MergeKind::Merge(kind)) = merge_kind
                && !is_nobody(distinct_id)
            {
                if person.merges(kind, distinct_id, &mut self.other_id) {
                    row.kind = kind;
                    row.other_id = &self.other_id;
                } else if kind == UpdateKind::Identify && !spans.event.is_none() {
                    // An `$identify` without another id still names its user. An event that is one
                    // only by its path, `/engage`, sets properties, also of anonymous users.
                    row.kind = kind;
                }
            }
        }
        if merge_kind == Some(MergeKind::Group)
            && let Some(group_set) = person.group(&mut self.group_type, &mut self.group_key)
        {
            row.group_type = &self.group_type;
            row.group_key = &self.group_key;
            row.group_set = group_set;
        }
        let is_of_any = !row.distinct_id.is_empty() || !row.group_type.is_empty();
        is_of_any.then_some(row)
    }
}

/// Properties of an event about persons and groups, as JSON.
#[derive(Default)]
struct PersonProperties<'b> {
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

impl<'b> PersonProperties<'b> {
    /// Reads them from an object that is known to be JSON; of several with one name the last one
    /// counts.
    fn of(properties: &'b [u8]) -> Self {
        // All of a body was found to be UTF-8; what is read as bytes is checked piece by piece.
        let properties = std::str::from_utf8(properties).unwrap_or_default();
        let mut input = serde_json::Deserializer::from_str(properties);
        input
            .deserialize_map(PersonPropertiesVisitor)
            .unwrap_or_default()
    }

    /// Returns true if the client wants no person to be updated.
    fn is_personless(&self, rules: &Rules<'_>, spans: Event<'_>) -> bool {
        match self.process_person_profile {
            Some(value) => value.get() == "false",
            None => rules.is_v1 && spans.rare.options.process_person_profile.kind() == Kind::False,
        }
    }

    /// Fills in the properties that the event has for its person. Fields beside the properties
    /// count unless the properties have the same name, as that is how they are stored.
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

    /// Returns true if the event names another id that may be somebody's; writes it.
    fn merges(&self, kind: UpdateKind, distinct_id: &str, other_id: &mut String) -> bool {
        let named = match kind {
            UpdateKind::Identify => self.anonymous,
            _ => self.alias,
        };
        let names_zero = named.is_some_and(|value| is_zero(value.get().as_bytes()));
        id(named, NAME_CHARS_MAX, other_id)
            && other_id != distinct_id
            && !names_zero
            && !is_nobody(other_id)
    }

    /// Properties of the group that the event describes, if it does; writes its names.
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

/// Text of an object that is not empty; empty for anything else.
fn members(json: &[u8]) -> &[u8] {
    if json.starts_with(b"{") && json.len() > 2 {
        json
    } else {
        b""
    }
}

/// Writes the text of a string or a number; returns true if it may be an id.
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

/// Returns true if an id is nobody's, so that nobody is merged with it. Clients send such ids in
/// quotes, too.
fn is_nobody(id: &str) -> bool {
    let inner = ['"', '\''].into_iter().find_map(|quote| {
        let inner = id.strip_prefix(quote)?;
        inner.strip_suffix(quote)
    });
    let inner = inner.unwrap_or(id).trim();
    inner.is_empty() || is_illegal(inner.as_bytes())
}

struct PersonPropertiesVisitor;

impl<'b> Visitor<'b> for PersonPropertiesVisitor {
    type Value = PersonProperties<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<PersonProperties<'b>, A::Error> {
        let mut person = PersonProperties::default();
        while let Some(PropertyName(name)) = map.next_key()? {
            let slot = match name {
                Some(KnownProperty::Set) => &mut person.set,
                Some(KnownProperty::SetOnce) => &mut person.set_once,
                Some(KnownProperty::Unset) => &mut person.unset,
                Some(KnownProperty::ProcessPersonProfile) => &mut person.process_person_profile,
                Some(KnownProperty::Anonymous) => &mut person.anonymous,
                Some(KnownProperty::Alias) => &mut person.alias,
                Some(KnownProperty::GroupType) => &mut person.group_type,
                Some(KnownProperty::GroupKey) => &mut person.group_key,
                Some(KnownProperty::GroupSet) => &mut person.group_set,
                None => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *slot = Some(map.next_value()?);
        }
        Ok(person)
    }
}

/// Key of a property, read as bytes, as one that is no text must not spoil the others.
struct PropertyName(Option<KnownProperty>);

enum KnownProperty {
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

impl<'de> Deserialize<'de> for PropertyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PropertyNameVisitor)
    }
}

struct PropertyNameVisitor;

impl Visitor<'_> for PropertyNameVisitor {
    type Value = PropertyName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<PropertyName, E> {
        Ok(PropertyName(match name {
            b"$set" => Some(KnownProperty::Set),
            b"$set_once" => Some(KnownProperty::SetOnce),
            b"$unset" => Some(KnownProperty::Unset),
            b"$process_person_profile" => Some(KnownProperty::ProcessPersonProfile),
            b"$anon_distinct_id" => Some(KnownProperty::Anonymous),
            b"alias" => Some(KnownProperty::Alias),
            b"$group_type" => Some(KnownProperty::GroupType),
            b"$group_key" => Some(KnownProperty::GroupKey),
            b"$group_set" => Some(KnownProperty::GroupSet),
            _ => None,
        }))
    }
}
