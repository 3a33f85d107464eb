//! Where things are in a body: offsets instead of references, so that the lists that hold them
//! are reused from request to request. Bodies are far below 4 GiB, so 32 bits do.

/// What sort of JSON value a span covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The key is not there.
    #[default]
    Absent,
    Null,
    True,
    False,
    Number,
    /// A string without escapes; the span is what is between the quotes, so there is always a
    /// byte before it and one after it.
    String,
    /// A string with escapes, likewise.
    Escaped,
    /// The span includes the braces.
    Object,
    /// The span includes the brackets.
    Array,
}

/// A JSON value in the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// A value from `start` up to `end`.
    #[inline]
    pub const fn new(kind: Kind, start: usize, end: usize) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the index refuses bodies of 4 GiB"
        )]
        Self {
            kind,
            start: start as u32,
            end: end as u32,
        }
    }

    /// Its bytes.
    #[inline]
    pub fn of<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        body.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// Its JSON text.
    #[inline]
    pub fn json<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        if self.is_string() {
            let (start, end) = (self.start as usize, self.end as usize);
            return body.get(start - 1..=end).unwrap_or_default();
        }
        self.of(body)
    }

    /// Whether the value counts as not given.
    #[inline]
    pub const fn is_none(&self) -> bool {
        matches!(self.kind, Kind::Absent | Kind::Null)
    }

    /// Whether it is a string.
    #[inline]
    pub const fn is_string(&self) -> bool {
        matches!(self.kind, Kind::String | Kind::Escaped)
    }

    /// How many bytes it covers.
    #[inline]
    pub const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether an offset falls in it.
    pub const fn contains(&self, offset: u32) -> bool {
        self.start <= offset && offset < self.end
    }
}

/// One event's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSpans {
    /// The whole event; anything but an object is refused later.
    pub whole: Span,
    pub event: Span,
    pub distinct_id: Span,
    pub dollar_distinct_id: Span,
    pub timestamp: Span,
    pub uuid: Span,
    pub set: Span,
    pub set_once: Span,
    pub unset: Span,
    pub groups: Span,
    pub offset: Span,
    pub api_key: Span,
    pub token: Span,
    pub dollar_token: Span,
    pub historical_migration: Span,
    /// v1 only, like the next two.
    pub options: Options,
    pub session_id: Span,
    pub window_id: Span,
    pub properties: Properties,
}

/// The v1 protocol's options of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub cookieless_mode: Span,
    pub process_person_profile: Span,
    pub product_tour_id: Span,
    pub disable_skew_correction: Span,
}

/// What matters of an event's properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub whole: Span,
    pub distinct_id: Span,
    pub dollar_distinct_id: Span,
    pub token: Span,
    /// `{}`: what is spliced in must not end in a comma.
    pub is_empty: bool,
    /// `$geoip_disable` is true.
    pub geoip_disable: bool,
    /// `$ignore_sent_at` is true.
    pub ignore_sent_at: bool,
    /// Which keys are there already and must not be spliced in.
    pub present: Present,
}

/// A set of property names that we might splice in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present(u16);

impl Present {
    pub const IP: Self = Self(1);
    pub const SET: Self = Self(1 << 1);
    pub const SET_ONCE: Self = Self(1 << 2);
    pub const UNSET: Self = Self(1 << 3);
    pub const GROUPS: Self = Self(1 << 4);
    pub const SESSION_ID: Self = Self(1 << 5);
    pub const WINDOW_ID: Self = Self(1 << 6);
    pub const COOKIELESS: Self = Self(1 << 7);
    pub const PERSON_PROFILE: Self = Self(1 << 8);
    pub const LIB: Self = Self(1 << 9);
    pub const LIB_VERSION: Self = Self(1 << 10);
    pub const TOUR: Self = Self(1 << 11);
    /// What is said of the event's person.
    pub const OF_PERSON: Self = Self(Self::SET.0 | Self::SET_ONCE.0 | Self::UNSET.0);

    /// Adds a name.
    #[inline]
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether a name, or one of several, is in the set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Which shape a body has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// `[event, …]`
    Array,
    /// `{"batch": [event, …], …}`
    Batch,
    /// `{"batch": …}` where the value is not an array.
    NotABatch,
    /// One object: the event.
    #[default]
    Single,
}

/// A body, taken apart; reused from request to request.
#[derive(Debug, Default)]
pub struct Document {
    pub shape: Shape,
    /// The root object's own fields; nothing for an array.
    pub root: EventSpans,
    pub sent_at: Span,
    pub sent_at_camel: Span,
    /// The events of an array or a batch; the root itself for a single one.
    pub events: Vec<EventSpans>,
}

impl Document {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.shape = Shape::default();
        self.root = EventSpans::default();
        self.sent_at = Span::default();
        self.sent_at_camel = Span::default();
        self.events.clear();
    }
}
