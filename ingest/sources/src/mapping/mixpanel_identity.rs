//! Identity of Mixpanel's events: the id that an event belongs to, and the ids that it merges.
//!
//! The `distinct_id` of an export is canonical: the one id of all that Mixpanel has merged, under
//! either of its ID Merges. So it is taken unchanged, whatever its form; the id that the event was
//! sent with (`$distinct_id_before_identity`) would split one person into several. That holds for
//! `$identify` and `$merge` as well: under Original ID Merge the canonical id of a user of several
//! devices is any id of the cluster, and mostly neither of the two that such an event names.
//!
//! An id is merged into a canonical one that the event does not name only if Mixpanel has shown
//! that it did the same: by an event that was sent with this id and exported with the canonical
//! one. A merge is for good, and would make one person of everybody if somebody sends a constant as
//! `distinct_id`. A device goes to its first user, as with any `$identify`: Mixpanel refuses to
//! merge an `$anon_id` that belongs to a user already.

use crate::json::{self, Object};
use std::borrow::Cow;

/// Prefix of the ids that Simplified ID Merge gives to devices without a user.
const DEVICE_PREFIX: &str = "$device:";

/// Ids of an event.
#[derive(Default)]
pub(super) struct Identity<'a> {
    pub(super) distinct_id: Cow<'a, str>,
    pub(super) own: OwnIds<'a>,
    /// An additional event to generate, as one event names two ids at most.
    pub(super) extra: Option<ExtraEvent<'a>>,
    /// Rule to count if the id is not simply the `distinct_id`.
    pub(super) rule: Option<&'static str>,
}

/// Ids that the event itself names besides its distinct id.
#[derive(Default)]
pub(super) enum OwnIds<'a> {
    /// No other id.
    #[default]
    None,
    /// Anonymous id of its user.
    Anonymous(Cow<'a, str>),
    /// Other id of its person.
    Alias(Cow<'a, str>),
    /// A user without an anonymous id.
    User,
    /// Not even its person: the event names two other ids, and its own may be a device's.
    Unknown,
}

/// Ids that a generated event names.
pub(super) enum ExtraEvent<'a> {
    Identify {
        user: Cow<'a, str>,
        anonymous: Cow<'a, str>,
    },
    Merge {
        target: Cow<'a, str>,
        alias: Cow<'a, str>,
    },
}

impl<'a> Identity<'a> {
    pub(super) fn of(event: &str, properties: &Object<'a>, merges: bool) -> Option<Self> {
        let resolved = Self::resolved(properties);
        if !merges {
            return resolved;
        }
        let Some(pair) = IdentityPair::of(event, properties) else {
            return resolved;
        };
        // Only an exported `distinct_id` is canonical.
        let canonical = properties.text("distinct_id").and(resolved);
        Some(Self {
            rule: Some("merged_persons"),
            ..pair.under(
                canonical.map(|it| it.distinct_id),
                sent_with(properties).as_deref(),
            )
        })
    }

    /// Distinct id of an event that names no pair of ids.
    fn resolved(properties: &Object<'a>) -> Option<Self> {
        let user = || properties.text("$user_id");
        let (distinct_id, rule) = match properties.text("distinct_id") {
            Some(id) => match user().filter(|_| id.starts_with(DEVICE_PREFIX)) {
                Some(user) => (user, Some("distinct_id_from_user_or_device")),
                None => (id, None),
            },
            None => match sent_with(properties) {
                Some(before) => (before, Some("distinct_id_before_identity")),
                None => (
                    user().or_else(|| properties.text("$device_id"))?,
                    Some("distinct_id_from_user_or_device"),
                ),
            },
        };
        Some(Self {
            distinct_id,
            rule,
            ..Self::default()
        })
    }
}

/// Id that the event was sent with.
fn sent_with<'a>(properties: &Object<'a>) -> Option<Cow<'a, str>> {
    let before = properties.get("$distinct_id_before_identity");
    before
        .and_then(json::string)
        .filter(|before| !before.trim().is_empty())
}

/// Two ids that one event names.
enum IdentityPair<'a> {
    Identify {
        user: Cow<'a, str>,
        anonymous: Cow<'a, str>,
    },
    Merge([Cow<'a, str>; 2]),
}

impl<'a> IdentityPair<'a> {
    fn of(event: &str, properties: &Object<'a>) -> Option<Self> {
        match event {
            // Names of Mixpanel's API, then of its libraries.
            "$identify" => {
                let anonymous = ["$anon_id", "$anon_distinct_id"];
                let anonymous = anonymous.iter().find_map(|name| properties.text(name))?;
                let user = ["$identified_id", "$user_id"];
                let user = user.iter().find_map(|name| properties.text(name));
                let user = user.or_else(|| sent_with(properties))?;
                (user != anonymous).then_some(Self::Identify { user, anonymous })
            }
            "$merge" => {
                let ids = json::array(properties.get("$distinct_ids")?);
                let mut ids = ids.into_iter().filter_map(json::text);
                Some(Self::Merge([ids.next()?, ids.next()?]))
            }
            _ => None,
        }
    }

    /// Identity of the event under its canonical id, if it has one.
    fn under(self, canonical: Option<Cow<'a, str>>, sent: Option<&str>) -> Identity<'a> {
        match self {
            Self::Identify { user, anonymous } => identified(user, anonymous, canonical, sent),
            Self::Merge([first, second]) => merged(first, second, canonical, sent),
        }
    }
}

fn identified<'a>(
    user: Cow<'a, str>,
    anonymous: Cow<'a, str>,
    canonical: Option<Cow<'a, str>>,
    sent: Option<&str>,
) -> Identity<'a> {
    let is_users = sent == Some(&*user);
    let is_anonymous = sent == Some(&*anonymous);
    let (distinct_id, own, extra) = match canonical.filter(|id| *id != user) {
        None => (user, OwnIds::Anonymous(anonymous), None),
        Some(id) if id == anonymous && is_users => {
            let (target, alias) = (id.clone(), user);
            (id, OwnIds::User, Some(ExtraEvent::Merge { target, alias }))
        }
        Some(id) if id == anonymous => (user, OwnIds::Anonymous(anonymous), None),
        Some(id) if is_users => {
            let (target, alias) = (id.clone(), user);
            let extra = ExtraEvent::Merge { target, alias };
            (id, OwnIds::Anonymous(anonymous), Some(extra))
        }
        Some(id) if is_anonymous => (id, OwnIds::Anonymous(anonymous), None),
        Some(id) => {
            let extra = ExtraEvent::Identify { user, anonymous };
            (id, OwnIds::Unknown, Some(extra))
        }
    };
    Identity {
        distinct_id,
        own,
        extra,
        rule: None,
    }
}

fn merged<'a>(
    first: Cow<'a, str>,
    second: Cow<'a, str>,
    canonical: Option<Cow<'a, str>>,
    sent: Option<&str>,
) -> Identity<'a> {
    let is_shown = sent.is_some_and(|sent| sent == first || sent == second);
    let (distinct_id, own, extra) = match canonical.filter(|id| *id != first) {
        None => (first, OwnIds::Alias(second), None),
        Some(id) if id == second => (id, OwnIds::Alias(first), None),
        Some(id) if is_shown => {
            let (target, alias) = (id.clone(), second);
            let extra = ExtraEvent::Merge { target, alias };
            (id, OwnIds::Alias(first), Some(extra))
        }
        Some(id) => {
            let (target, alias) = (first, second);
            (
                id,
                OwnIds::Unknown,
                Some(ExtraEvent::Merge { target, alias }),
            )
        }
    };
    Identity {
        distinct_id,
        own,
        extra,
        rule: None,
    }
}
