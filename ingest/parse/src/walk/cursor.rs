//! Cursor over the index, and its moves.

use super::names;
use super::number::{is_usual_number, number_len};
use crate::characters::{Refused, is_white};
use crate::index::Index;
use crate::span::{Kind, Span};

/// Mark of the index: one structural character.
#[derive(Clone, Copy)]
pub(super) struct IndexMark {
    /// Number of the mark. Its place in the body is rarely asked for.
    nth: usize,
    /// Character at the mark.
    pub byte: u8,
}

/// Cursor over the index. It is copied into every function that is not inlined and handed back, so
/// that the compiler may keep it in registers meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    body: &'a [u8],
    marks: &'a [u32],
    /// Characters at the marks, and some zeros.
    characters: &'a [u8],
    /// Marks that were passed.
    nth: usize,
    escapes: &'a [u32],
    /// First escape not yet passed; `usize::MAX` when there is none.
    next_escape: usize,
    /// Containers that may be open at once; never more than a `u128` has bits.
    depth_max: u32,
}

impl<'a> Cursor<'a> {
    pub fn new(body: &'a [u8], index: &'a Index, depth_max: usize) -> Self {
        Self {
            body,
            marks: index.marks(),
            characters: index.characters(),
            nth: 0,
            escapes: index.escapes(),
            next_escape: first(index.escapes()),
            depth_max: u32::try_from(depth_max).unwrap_or(u32::MAX).min(128),
        }
    }

    /// Moves to the next structural character; behind the last one come zeros.
    #[inline(always)]
    pub fn next(&mut self) -> Result<IndexMark, Refused> {
        let nth = self.nth;
        let byte = *self.characters.get(nth).ok_or(Refused)?;
        self.nth = nth + 1;
        Ok(IndexMark { nth, byte })
    }

    /// Returns true if the text has ended.
    pub fn is_done(&self) -> bool {
        self.nth == self.marks.len()
    }

    /// Offset of a mark in the body; the body's length behind the last one.
    #[inline(always)]
    fn offset(&self, nth: usize) -> usize {
        self.marks
            .get(nth)
            .map_or(self.body.len(), |at| *at as usize)
    }

    /// Span of a value that begins at a mark and ends with the character at `end`.
    #[inline(always)]
    pub fn span(&self, kind: Kind, open: IndexMark, end: usize) -> Span {
        Span::new(kind, self.offset(open.nth), end + 1)
    }

    /// Checks that one more container may be open.
    #[inline(always)]
    pub fn check_depth(&self, depth: u32) -> Result<(), Refused> {
        if depth > self.depth_max {
            return Err(Refused);
        }
        Ok(())
    }

    /// Reads the string that opens at a mark, without its quotes. The index guarantees that it is
    /// closed and that only white space comes between.
    #[inline(always)]
    fn string(&mut self, nth: usize) -> Result<Span, Refused> {
        let open = self.offset(nth);
        let mut end = self.offset(nth + 1).wrapping_sub(1);
        while *self.body.get(end).ok_or(Refused)? != b'"' {
            end = end.wrapping_sub(1);
        }
        let mut kind = Kind::String;
        if self.next_escape < end {
            *self = self.past_escapes(open);
            if self.next_escape < end {
                kind = Kind::Escaped;
            }
        }
        Ok(Span::new(kind, open + 1, end))
    }

    /// Returns the cursor with the escapes before an offset passed.
    #[cold]
    fn past_escapes(mut self, offset: usize) -> Self {
        while self.next_escape < offset {
            self.escapes = self.escapes.get(1..).unwrap_or_default();
            self.next_escape = first(self.escapes);
        }
        self
    }

    /// Reads the value that begins at `mark`, `depth` containers being open around it.
    #[inline(always)]
    pub fn value(&mut self, mark: IndexMark, depth: u32) -> Result<Span, Refused> {
        match mark.byte {
            b'"' => self.string(mark.nth),
            b'{' | b'[' => self.container(mark, depth),
            _ => self.scalar(mark),
        }
    }

    /// Moves past the value that begins at `mark`, when its kind does not matter.
    #[inline(always)]
    pub fn pass(&mut self, mark: IndexMark, depth: u32) -> Result<(), Refused> {
        match mark.byte {
            b'"' => Ok(()),
            b'{' | b'[' => self.container(mark, depth).map(|_| ()),
            _ => self.scalar(mark).map(|_| ()),
        }
    }

    #[inline(always)]
    fn container(&mut self, mark: IndexMark, depth: u32) -> Result<Span, Refused> {
        let is_object = mark.byte == b'{';
        let (after, end) = self.skip(is_object, depth + 1)?;
        *self = after;
        let kind = if is_object { Kind::Object } else { Kind::Array };
        Ok(self.span(kind, mark, end))
    }

    /// Reads the number or word that begins at `mark`.
    #[inline(always)]
    fn scalar(&mut self, mark: IndexMark) -> Result<Span, Refused> {
        let (at, end) = (self.offset(mark.nth), self.offset(mark.nth + 1));
        let text = self.body.get(at..end).ok_or(Refused)?;
        let (kind, len) = match mark.byte {
            b't' if text.starts_with(b"true") => (Kind::True, 4),
            b'f' if text.starts_with(b"false") => (Kind::False, 5),
            b'n' if text.starts_with(b"null") => (Kind::Null, 4),
            b'0'..=b'9' if is_usual_number(self.body, at, end) => {
                return Ok(Span::new(Kind::Number, at, end));
            }
            b'-' | b'0'..=b'9' => (Kind::Number, number_len(text).ok_or(Refused)?),
            _ => return Err(Refused),
        };
        // A value behind white space would have a mark, so one look is enough.
        match text.get(len) {
            Some(byte) if !is_white(*byte) => Err(Refused),
            _ => Ok(Span::new(kind, at, at + len)),
        }
    }

    /// Passes over the rest of a container whose bracket was read, itself the `depth`th that is
    /// open; returns the cursor after it and the offset of its closing bracket. No recursion: a bit
    /// for every open container says whether it is an object.
    #[inline(never)]
    fn skip(mut self, is_object: bool, depth: u32) -> Result<(Self, usize), Refused> {
        let mut objects = u128::from(is_object);
        let mut depth_now = depth;
        'opened: loop {
            self.check_depth(depth_now)?;
            let mut mark = self.next()?;
            let mut has_value = mark.byte != closer(objects);
            loop {
                if has_value {
                    if objects & 1 == 1 {
                        mark = self.after_key(mark)?;
                    }
                    match mark.byte {
                        b'"' => {}
                        b'{' | b'[' => {
                            objects = objects << 1 | u128::from(mark.byte == b'{');
                            depth_now += 1;
                            continue 'opened;
                        }
                        _ => {
                            self.scalar(mark)?;
                        }
                    }
                    mark = self.next()?;
                }
                has_value = mark.byte == b',';
                if has_value {
                    mark = self.next()?;
                    continue;
                }
                if mark.byte != closer(objects) {
                    return Err(Refused);
                }
                if depth_now == depth {
                    return Ok((self, self.offset(mark.nth)));
                }
                objects >>= 1;
                depth_now -= 1;
                mark = self.next()?;
            }
        }
    }

    /// Moves from the mark of a key to the mark of its value.
    #[inline(always)]
    fn after_key(&mut self, key: IndexMark) -> Result<IndexMark, Refused> {
        if key.byte != b'"' || self.next()?.byte != b':' {
            return Err(Refused);
        }
        self.next()
    }

    /// Moves to the first member of an object whose brace was read; `None` when it has none.
    #[inline(always)]
    pub fn first_member(&mut self, end: &mut usize) -> Result<Option<Member>, Refused> {
        let ahead = self.ahead()?;
        if ahead & 0xffff == u32::from_le_bytes(*b"\":\0\0") {
            return Ok(Some(self.member(self.nth, (ahead >> 16) as u8)));
        }
        self.end_of_object(end)
    }

    /// Moves to the member after one whose value was read; `None` behind the last one, `end` being
    /// then the offset of the closing brace.
    #[inline(always)]
    pub fn next_member(&mut self, end: &mut usize) -> Result<Option<Member>, Refused> {
        // Comma, name and colon at once.
        let ahead = self.ahead()?;
        if ahead & 0x00ff_ffff == u32::from_le_bytes(*b",\":\0") {
            return Ok(Some(self.member(self.nth + 1, (ahead >> 24) as u8)));
        }
        self.end_of_object(end)
    }

    /// Passes over members that are like most: of none of the names that we look for, and strings,
    /// words or short numbers. Behind an opening brace, `opener` is that, and a comma elsewhere.
    /// Returns true if there was any; the cursor is then behind its value.
    #[inline(always)]
    pub fn pass_plain_members(&mut self, opener: u8) -> bool {
        let Self {
            body,
            marks,
            characters,
            next_escape,
            ..
        } = *self;
        // A brace has been read, a comma has not.
        let start = self.nth - usize::from(opener == b'{');
        let mut nth = start;
        let mut opening = u32::from_le_bytes([opener, b'"', b':', 0]);
        while let Some(around) = chunk::<_, 4>(characters, nth).copied()
            && let [.., first] = around
            && u32::from_le_bytes(around) & 0x00ff_ffff == opening
            && let Some([_, key, colon, value, end]) = chunk(marks, nth).copied()
            && (colon as usize) < next_escape
            && let Some(beginning) = chunk(body, key as usize + 1)
            && !names::may_be_sought(*beginning)
            && is_plain(body, first, value as usize, end as usize)
        {
            nth += 4;
            opening = u32::from_le_bytes(*b",\":\0");
        }
        if nth == start {
            return false;
        }
        self.nth = nth;
        true
    }

    /// Passes the escapes before a member.
    #[inline(always)]
    pub fn forget_escapes_before(&mut self, member: &Member) {
        let key = self.offset(member.key);
        if self.next_escape < key {
            *self = self.past_escapes(key);
        }
    }

    #[inline(always)]
    fn end_of_object(&mut self, end: &mut usize) -> Result<Option<Member>, Refused> {
        let mark = self.next()?;
        if mark.byte != b'}' {
            return Err(Refused);
        }
        *end = self.offset(mark.nth);
        Ok(None)
    }

    /// Returns the next four characters, the first one lowest.
    #[inline(always)]
    fn ahead(&self) -> Result<u32, Refused> {
        let characters = chunk(self.characters, self.nth).ok_or(Refused)?;
        Ok(u32::from_le_bytes(*characters))
    }

    /// Moves behind the first character of a member's value; returns the member.
    #[inline(always)]
    fn member(&mut self, key: usize, value: u8) -> Member {
        self.nth = key + 3;
        Member {
            key,
            value: IndexMark {
                nth: key + 2,
                byte: value,
            },
        }
    }

    /// First byte of a member's name as it is written, the closing quote of an empty one.
    #[inline(always)]
    pub fn name_begins_with(&self, member: &Member) -> u8 {
        let first = self.offset(member.key) + 1;
        self.body.get(first).copied().unwrap_or_default()
    }

    /// Name of a member. Has to be asked for before the member's value is read, if at all.
    #[inline(always)]
    pub fn name(&mut self, member: &Member) -> Result<&'a [u8], Refused> {
        let key = self.string(member.key)?;
        let name = key.of(self.body);
        Ok(if key.kind() == Kind::Escaped {
            names::spelled_with_escapes(name)
        } else {
            name
        })
    }
}

/// Member of an object: the mark of its name, and that of its value, which is to be moved past.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// Mark of the name's opening quote.
    key: usize,
    /// First character of the value.
    pub value: IndexMark,
}

/// Returns true if a value that begins with this character is a string, a word or a short number,
/// and fills the text between two places.
#[inline(always)]
fn is_plain(body: &[u8], first: u8, start: usize, end: usize) -> bool {
    let word: &[u8] = match first {
        b'"' => return true,
        b't' => b"true",
        b'f' => b"false",
        b'n' => b"null",
        _ => return is_usual_number(body, start, end),
    };
    body.get(start..end) == Some(word)
}

/// Returns the items from a place on, if there are as many.
#[inline(always)]
fn chunk<T, const N: usize>(items: &[T], at: usize) -> Option<&[T; N]> {
    items.get(at..)?.first_chunk()
}

/// First of some offsets; `usize::MAX` when there is none.
#[inline(always)]
fn first(offsets: &[u32]) -> usize {
    offsets.first().map_or(usize::MAX, |at| *at as usize)
}

/// Closing character of the innermost container.
#[inline(always)]
const fn closer(objects: u128) -> u8 {
    if objects & 1 == 1 { b'}' } else { b']' }
}
