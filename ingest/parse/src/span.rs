//! Spans of values in a body: offsets instead of references, so that the lists that hold them are
//! reused from request to request. Bodies are far below 1 GiB, so 30 bits do.

use std::fmt;
use std::ops::Deref;

/// Kind of JSON value that a span covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The key is missing.
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

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}..{}", self.kind(), self.start(), self.end())
    }
}

/// Span of a JSON value in the body: its start and its end, 30 bits each, and its kind. As one
/// number it is written and read in one piece.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Span(u64);

/// Bits of an offset, and of a kind.
const OFFSET_BITS: u32 = 30;
const KIND_BITS: u32 = 4;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

/// Bytes that a body is shorter than.
pub const BODY_BYTES_MAX: usize = 1 << OFFSET_BITS;

impl Span {
    /// Returns the span of a value from `start` up to `end`.
    #[inline]
    pub const fn new(kind: Kind, start: usize, end: usize) -> Self {
        let (start, end) = (start as u64, end as u64);
        Self(start << (OFFSET_BITS + KIND_BITS) | end << KIND_BITS | kind as u64)
    }

    /// Kind of the value.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self.0 & KIND_MASK {
            1 => Kind::Null,
            2 => Kind::True,
            3 => Kind::False,
            4 => Kind::Number,
            5 => Kind::String,
            6 => Kind::Escaped,
            7 => Kind::Object,
            8 => Kind::Array,
            _ => Kind::Absent,
        }
    }

    /// Offset of its first byte.
    #[inline]
    pub const fn start(&self) -> usize {
        (self.0 >> (OFFSET_BITS + KIND_BITS)) as usize
    }

    /// Offset behind its last byte.
    #[inline]
    pub const fn end(&self) -> usize {
        (self.0 >> KIND_BITS) as usize & (BODY_BYTES_MAX - 1)
    }

    /// Bytes of the value.
    #[inline]
    pub fn of<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        body.get(self.start()..self.end()).unwrap_or_default()
    }

    /// JSON text of the value.
    #[inline]
    pub fn json<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        if self.is_string() {
            return body.get(self.start() - 1..=self.end()).unwrap_or_default();
        }
        self.of(body)
    }

    /// Returns true if the value counts as not given.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.0 & KIND_MASK <= Kind::Null as u64
    }

    /// Returns true if it is a string.
    #[inline]
    pub const fn is_string(&self) -> bool {
        self.0 & KIND_MASK == Kind::String as u64 || self.0 & KIND_MASK == Kind::Escaped as u64
    }

    /// Bytes that it covers.
    #[inline]
    pub const fn len(&self) -> usize {
        self.end() - self.start()
    }

    /// Returns true if an offset falls in it.
    pub const fn contains(&self, offset: u32) -> bool {
        let offset = offset as usize;
        self.start() <= offset && offset < self.end()
    }
}

/// Spans of the fields that most events have. Thousands are written and read a request, so fields
/// that few events have are kept elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSpans {
    /// The whole event; anything but an object is refused later.
    pub whole: Span,
    pub event: Span,
    pub distinct_id: Span,
    pub timestamp: Span,
    pub uuid: Span,
    pub properties: Properties,
    /// Number of its [`RareSpans`] in the document, counted from 1; 0 when it has none.
    rare: u32,
}

/// Spans of the fields that few events have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RareSpans {
    pub dollar_distinct_id: Span,
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
}

/// Fields of one event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'d> {
    spans: &'d EventSpans,
    pub rare: &'d RareSpans,
}

impl Event<'_> {
    /// Returns true if it may have a field that few events have.
    #[inline]
    pub const fn has_rare(&self) -> bool {
        self.spans.rare != 0
    }
}

impl Deref for Event<'_> {
    type Target = EventSpans;

    fn deref(&self) -> &EventSpans {
        self.spans
    }
}

/// Options of an event in the v1 protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub cookieless_mode: Span,
    pub process_person_profile: Span,
    pub product_tour_id: Span,
    pub disable_skew_correction: Span,
}

/// Spans of an event's properties that matter.
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
    /// Keys that are there already and must not be spliced in.
    pub present: Present,
}

/// Set of property names that may be spliced in.
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
    /// Properties of the event's person.
    pub const OF_PERSON: Self = Self(Self::SET.0 | Self::SET_ONCE.0 | Self::UNSET.0);

    /// Adds a name.
    #[inline]
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Returns true if a name, or one of several, is in the set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Shape of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyShape {
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

/// Spans of a whole body; reused from request to request.
#[derive(Debug, Default)]
pub struct Document {
    pub shape: BodyShape,
    /// Fields of the root object; none for an array.
    pub root: EventSpans,
    pub sent_at: Span,
    pub sent_at_camel: Span,
    /// Events of an array or a batch; the root itself for a single one.
    pub events: Vec<EventSpans>,
    pub rare: Rare,
}

/// Rare fields of those events that have any.
#[derive(Debug, Default)]
pub struct Rare {
    noted: Vec<RareSpans>,
    /// Rare fields of all other events: none.
    none: RareSpans,
}

impl Rare {
    /// Rare fields of an event, for one to be noted. A body has far less than 2³² events, so there
    /// is always a slot.
    pub fn of(&mut self, event: &mut EventSpans) -> Option<&mut RareSpans> {
        if event.rare == 0 {
            self.noted.push(RareSpans::default());
            event.rare = u32::try_from(self.noted.len()).ok()?;
        }
        self.noted.get_mut(event.rare as usize - 1)
    }
}

impl Document {
    /// Empties the document, keeping its memory.
    pub fn clear(&mut self) {
        self.shape = BodyShape::default();
        self.root = EventSpans::default();
        self.sent_at = Span::default();
        self.sent_at_camel = Span::default();
        self.events.clear();
        self.rare.noted.clear();
    }

    /// All fields of one of its events, or of its root.
    #[inline]
    pub fn event<'d>(&'d self, spans: &'d EventSpans) -> Event<'d> {
        let rare = match spans.rare {
            0 => None,
            nth => self.rare.noted.get(nth as usize - 1),
        };
        Event {
            spans,
            rare: rare.unwrap_or(&self.rare.none),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_spans_return_the_kind_and_offsets_they_were_made_of() {
        let kinds = [
            Kind::Absent,
            Kind::Null,
            Kind::True,
            Kind::False,
            Kind::Number,
            Kind::String,
            Kind::Escaped,
            Kind::Object,
            Kind::Array,
        ];
        let last = BODY_BYTES_MAX - 1;
        for kind in kinds {
            for (start, end) in [(0, 0), (1, 2), (0, last), (last, last)] {
                let span = Span::new(kind, start, end);
                assert_eq!((span.kind(), span.start(), span.end()), (kind, start, end));
            }
        }
        assert_eq!(Span::default().kind(), Kind::Absent);
    }
}
