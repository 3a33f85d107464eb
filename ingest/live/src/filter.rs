//! Filter of a viewer: the events that it wants. All conditions have to hold.

use crate::event::{EventOutcome, IP, LiveEvent, string_of};
use serde::{Deserialize, Serialize};

/// Fate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Accepted: its row is in the log.
    Logged,
    /// Accepted, and its row is in ClickHouse.
    Stored,
    /// Rejected, with a code.
    Rejected,
}

/// Filter of a viewer; by default it wants all events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveFilter {
    /// Name of the event.
    pub event: Option<String>,
    /// Distinct id of its person.
    pub distinct_id: Option<String>,
    /// Fate of the event. Events that are to be stored are shown once they are.
    pub fate: Option<Fate>,
    /// Code of its rejection, or of a warning about it.
    pub code: Option<String>,
    /// SDK, by the property `$lib`.
    pub lib: Option<String>,
    /// Names of properties with their values: strings as they are, others as JSON.
    pub properties: Vec<(String, String)>,
}

// === impl Fate ===

impl Fate {
    /// All fates.
    pub const ALL: [Self; 3] = [Self::Logged, Self::Stored, Self::Rejected];

    /// Name of the fate in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logged => "logged",
            Self::Stored => "stored",
            Self::Rejected => "rejected",
        }
    }

    /// Fate of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.name() == name)
    }
}

// === impl LiveFilter ===

impl LiveFilter {
    /// Returns true if an event is wanted. A viewer that does not see addresses must not find them
    /// by its filter either.
    pub(crate) fn matches(&self, event: &LiveEvent, shows_ip: bool) -> bool {
        let is =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is(&self.event, &event.event)
            && is(&self.distinct_id, &event.distinct_id)
            && is(&self.lib, &event.lib)
            && self.fate.is_none_or(|fate| may_have(event, fate))
            && self.code.as_ref().is_none_or(|code| event.has_code(code))
            && self
                .properties
                .iter()
                .all(|(name, value)| (shows_ip || name != IP) && has_property(event, name, value))
    }
}

/// Returns true if an event has a fate, or will have it.
fn may_have(event: &LiveEvent, fate: Fate) -> bool {
    let is_rejected = matches!(event.outcome, EventOutcome::Rejected { .. });
    is_rejected == (fate == Fate::Rejected)
}

fn has_property(event: &LiveEvent, name: &str, value: &str) -> bool {
    let properties = event.properties.as_ref();
    let found = properties.and_then(|properties| properties.get(name));
    found.is_some_and(|found| match string_of(found) {
        Some(text) => text == value,
        None => found.get() == value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoded;
    use crate::testing::{event_group, facts, logged, rejected_group};

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn property(name: &str, value: &str) -> LiveFilter {
        LiveFilter {
            properties: vec![(name.to_owned(), value.to_owned())],
            ..LiveFilter::default()
        }
    }

    fn fate(fate: Fate) -> LiveFilter {
        LiveFilter {
            fate: Some(fate),
            ..LiveFilter::default()
        }
    }

    #[test]
    fn each_condition_has_to_hold() {
        let raw = r#"{"event":"","properties":{"plan":"pro"}}"#;
        let mut facts = facts(1, 1);
        (facts.warnings, facts.warning_count) = (vec![(1, "missing_timestamp")], 1);
        let groups = vec![event_group(202_611, &["page"]), rejected_group(&[raw])];
        let events = decoded(&logged(groups, facts), || 1);
        let by = |filter: LiveFilter| {
            let matches = events.iter().map(|event| filter.matches(event, false));
            matches.collect::<Vec<_>>()
        };
        let code = |code| LiveFilter {
            code: text(code),
            ..LiveFilter::default()
        };
        let event = LiveFilter {
            event: text("page"),
            distinct_id: text("ann"),
            lib: text("web"),
            ..property("n", "7")
        };
        let table = [
            (LiveFilter::default(), [true, true]),
            (event.clone(), [true, false]),
            (
                LiveFilter {
                    distinct_id: text("bob"),
                    ..event
                },
                [false, false],
            ),
            (property("plan", "pro"), [true, true]),
            (property("plan", "\"pro\""), [false, false]),
            (property("n", "8"), [false, false]),
            (property("none", ""), [false, false]),
            (fate(Fate::Logged), [true, false]),
            (fate(Fate::Stored), [true, false]),
            (fate(Fate::Rejected), [false, true]),
            (code("missing_event"), [false, true]),
            (code("missing_timestamp"), [true, false]),
        ];
        for (filter, expected) in table {
            assert_eq!(by(filter.clone()), expected, "{filter:?}");
        }
    }

    #[test]
    fn addresses_are_found_by_viewers_who_see_them_only() {
        let events = decoded(
            &logged(vec![event_group(202_611, &["page"])], facts(1, 0)),
            || 1,
        );
        let filter = property("$ip", "192.0.2.1");
        for shows_ip in [false, true] {
            assert_eq!(filter.matches(&events[0], shows_ip), shows_ip);
        }
    }

    #[test]
    fn fates_have_names() {
        for fate in Fate::ALL {
            assert_eq!(Fate::named(fate.name()), Some(fate));
        }
        assert_eq!(Fate::named("lost"), None);
    }
}
