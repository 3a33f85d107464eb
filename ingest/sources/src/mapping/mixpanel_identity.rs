//! Identity of Mixpanel's events: the id that an event belongs to, and the ids that it says are one person.
//!
//! The `distinct_id` of an export is canonical: the one id of all that Mixpanel has merged, under either of its ID Merges.
//! So it is taken as it stands, whatever it looks like; what the event was sent with (`$distinct_id_before_identity`)
//! would tear one person into several. That holds for `$identify` and `$merge` as well: under Original ID Merge the
//! canonical id of a user of several devices is any id of the cluster, and mostly none of the two that such an event names.
//!
//! An id is joined to a canonical one that the event does not name only where Mixpanel has shown that it did the same: by
//! an event that was sent with this id and exported with the canonical one. Such a merge is for good, and of a constant
//! that somebody sends as `distinct_id` it would make one person of everybody. A device goes to its first user, as with any
//! `$identify`: Mixpanel refuses to merge an `$anon_id` that belongs to a user already.

use crate::json::{self, Object};
use std::borrow::Cow;

/// How the ids begin that Simplified ID Merge gives to devices without a user.
const DEVICE_PREFIX: &str = "$device:";

/// See the module.
#[derive(Default)]
pub(super) struct Identity<'a> {
    pub(super) distinct_id: Cow<'a, str>,
    pub(super) own: Own<'a>,
    /// What is said by an event of its own, as one event names two ids at most.
    pub(super) beside: Option<Beside<'a>>,
    /// Where it was not simply the `distinct_id`.
    pub(super) rule: Option<&'static str>,
}

/// What the event itself says of persons.
#[derive(Default)]
pub(super) enum Own<'a> {
    /// Nothing that its mapping would have to add.
    #[default]
    Nothing,
    /// The anonymous id of its user.
    Anonymous(Cow<'a, str>),
    /// The other id of its person.
    Alias(Cow<'a, str>),
    /// Its user, but no anonymous id.
    User,
    /// Not even whose it is: it names two others, and its own id may be a device's.
    Nobody,
}

/// What an event that is generated says of persons.
pub(super) enum Beside<'a> {
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
        let Some(pair) = Pair::of(event, properties) else {
            return resolved;
        };
        // Only what was exported is canonical.
        let canonical = properties.text("distinct_id").and(resolved);
        Some(Self {
            rule: Some("merged_persons"),
            ..pair.under(
                canonical.map(|it| it.distinct_id),
                sent_with(properties).as_deref(),
            )
        })
    }

    /// Whose event it is, as far as that has nothing to do with what it says.
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

/// The id that the event was sent with.
fn sent_with<'a>(properties: &Object<'a>) -> Option<Cow<'a, str>> {
    let before = properties.get("$distinct_id_before_identity");
    before
        .and_then(json::string)
        .filter(|before| !before.trim().is_empty())
}

/// Two ids that one event names.
enum Pair<'a> {
    Identify {
        user: Cow<'a, str>,
        anonymous: Cow<'a, str>,
    },
    Merge([Cow<'a, str>; 2]),
}

impl<'a> Pair<'a> {
    fn of(event: &str, properties: &Object<'a>) -> Option<Self> {
        match event {
            // By Mixpanel's API, or by its libraries.
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

    /// What the event says under its canonical id, where it has one.
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
    let (distinct_id, own, beside) = match canonical.filter(|id| *id != user) {
        None => (user, Own::Anonymous(anonymous), None),
        Some(id) if id == anonymous && is_users => {
            let (target, alias) = (id.clone(), user);
            (id, Own::User, Some(Beside::Merge { target, alias }))
        }
        Some(id) if id == anonymous => (user, Own::Anonymous(anonymous), None),
        Some(id) if is_users => {
            let (target, alias) = (id.clone(), user);
            let beside = Beside::Merge { target, alias };
            (id, Own::Anonymous(anonymous), Some(beside))
        }
        Some(id) if is_anonymous => (id, Own::Anonymous(anonymous), None),
        Some(id) => {
            let beside = Beside::Identify { user, anonymous };
            (id, Own::Nobody, Some(beside))
        }
    };
    Identity {
        distinct_id,
        own,
        beside,
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
    let (distinct_id, own, beside) = match canonical.filter(|id| *id != first) {
        None => (first, Own::Alias(second), None),
        Some(id) if id == second => (id, Own::Alias(first), None),
        Some(id) if is_shown => {
            let (target, alias) = (id.clone(), second);
            let beside = Beside::Merge { target, alias };
            (id, Own::Alias(first), Some(beside))
        }
        Some(id) => {
            let (target, alias) = (first, second);
            (id, Own::Nobody, Some(Beside::Merge { target, alias }))
        }
    };
    Identity {
        distinct_id,
        own,
        beside,
        rule: None,
    }
}
