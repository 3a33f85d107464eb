//! A place in the index, and the moves from it.

use super::number::number_len;
use super::{Refused, names};
use crate::index::{Index, is_white};
use crate::span::{Kind, Span};

/// One structural character.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// Its offset in the body.
    pub at: usize,
    /// The character.
    pub byte: u8,
}

/// A place in the index. It is copied into every function that is not inlined and handed back, so
/// that the compiler may keep it in registers meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    body: &'a [u8],
    marks: &'a [u32],
    escapes: &'a [u32],
    /// The first escape not yet passed; `usize::MAX` when there is none.
    next_escape: usize,
    /// Containers open at once, at most; never more than a `u128` has bits.
    depth_max: u32,
}

impl<'a> Cursor<'a> {
    pub fn new(body: &'a [u8], index: &'a Index, depth_max: usize) -> Self {
        Self {
            body,
            marks: index.marks(),
            escapes: index.escapes(),
            next_escape: first(index.escapes()),
            depth_max: u32::try_from(depth_max).unwrap_or(u32::MAX).min(128),
        }
    }

    /// The next structural character.
    #[inline(always)]
    pub fn next(&mut self) -> Result<Mark, Refused> {
        let (first, rest) = self.marks.split_first().ok_or(Refused)?;
        self.marks = rest;
        let at = *first as usize;
        let byte = *self.body.get(at).ok_or(Refused)?;
        Ok(Mark { at, byte })
    }

    /// Whether the text has ended.
    pub fn is_done(&self) -> bool {
        self.marks.is_empty()
    }

    /// Checks that one more container may be open.
    #[inline(always)]
    pub fn check_depth(&self, depth: u32) -> Result<(), Refused> {
        if depth > self.depth_max {
            return Err(Refused);
        }
        Ok(())
    }

    /// The offset of the next structural character, which ends what came before it.
    #[inline(always)]
    fn peek(&self) -> usize {
        self.marks
            .first()
            .map_or(self.body.len(), |at| *at as usize)
    }

    /// The string that opens at `open` and is followed by the structural character at `next`,
    /// without its quotes. The index guarantees that it is closed and that only white space comes
    /// between.
    #[inline(always)]
    fn string(&mut self, open: usize, next: usize) -> Result<Span, Refused> {
        let mut end = next.wrapping_sub(1);
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

    /// The same place, with the escapes before an offset forgotten.
    #[cold]
    fn past_escapes(mut self, offset: usize) -> Self {
        while self.next_escape < offset {
            self.escapes = self.escapes.get(1..).unwrap_or_default();
            self.next_escape = first(self.escapes);
        }
        self
    }

    /// The value that begins at `mark`, `depth` containers being open around it.
    #[inline(always)]
    pub fn value(&mut self, mark: Mark, depth: u32) -> Result<Span, Refused> {
        match mark.byte {
            b'"' => self.string(mark.at, self.peek()),
            b'{' | b'[' => self.container(mark, depth),
            _ => self.scalar(mark),
        }
    }

    /// Moves past the value that begins at `mark`, when what it is does not matter.
    #[inline(always)]
    pub fn pass(&mut self, mark: Mark, depth: u32) -> Result<(), Refused> {
        match mark.byte {
            b'"' => Ok(()),
            b'{' | b'[' => self.container(mark, depth).map(|_| ()),
            _ => self.scalar(mark).map(|_| ()),
        }
    }

    #[inline(always)]
    fn container(&mut self, mark: Mark, depth: u32) -> Result<Span, Refused> {
        let is_object = mark.byte == b'{';
        let (after, end) = self.skip(is_object, depth + 1)?;
        *self = after;
        let kind = if is_object { Kind::Object } else { Kind::Array };
        Ok(Span::new(kind, mark.at, end + 1))
    }

    /// The number or word that begins at `mark`.
    #[inline(always)]
    fn scalar(&mut self, mark: Mark) -> Result<Span, Refused> {
        let text = self.body.get(mark.at..self.peek()).ok_or(Refused)?;
        let (kind, len) = match mark.byte {
            b't' if text.starts_with(b"true") => (Kind::True, 4),
            b'f' if text.starts_with(b"false") => (Kind::False, 5),
            b'n' if text.starts_with(b"null") => (Kind::Null, 4),
            b'-' | b'0'..=b'9' => (Kind::Number, number_len(text).ok_or(Refused)?),
            _ => return Err(Refused),
        };
        // What follows white space would be structural, so one look is enough.
        match text.get(len) {
            Some(byte) if !is_white(*byte) => Err(Refused),
            _ => Ok(Span::new(kind, mark.at, mark.at + len)),
        }
    }

    /// Passes over the rest of a container whose bracket was read, itself the `depth`th that is
    /// open; returns the place after it and the offset of its closing bracket. No recursion: a bit
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
                    return Ok((self, mark.at));
                }
                objects >>= 1;
                depth_now -= 1;
                mark = self.next()?;
            }
        }
    }

    /// Given the mark of a key, the mark of its value.
    #[inline(always)]
    fn after_key(&mut self, key: Mark) -> Result<Mark, Refused> {
        if key.byte != b'"' || self.next()?.byte != b':' {
            return Err(Refused);
        }
        self.next()
    }

    /// The first member of an object whose brace was read; `None` when it has none.
    #[inline(always)]
    pub fn first_member(&mut self, end: &mut usize) -> Result<Option<Member>, Refused> {
        if let [key, colon, value, rest @ ..] = self.marks
            && self.byte_at(*key)? != b'}'
        {
            self.marks = rest;
            return self.member(*key, *colon, *value).map(Some);
        }
        let mark = self.next()?;
        if mark.byte != b'}' {
            return Err(Refused);
        }
        *end = mark.at;
        Ok(None)
    }

    /// The member after one whose value was read; `None` behind the last one, `end` being then
    /// the offset of the closing brace.
    #[inline(always)]
    pub fn next_member(&mut self, end: &mut usize) -> Result<Option<Member>, Refused> {
        // All four at once: one look at the length is enough. A text with fewer left has no
        // member left, or is cut short.
        if let [comma, key, colon, value, rest @ ..] = self.marks
            && self.byte_at(*comma)? == b','
        {
            self.marks = rest;
            return self.member(*key, *colon, *value).map(Some);
        }
        let mark = self.next()?;
        if mark.byte != b'}' {
            return Err(Refused);
        }
        *end = mark.at;
        Ok(None)
    }

    /// The member whose marks these are.
    #[inline(always)]
    fn member(&self, key: u32, colon: u32, value: u32) -> Result<Member, Refused> {
        if self.byte_at(key)? != b'"' || self.byte_at(colon)? != b':' {
            return Err(Refused);
        }
        Ok(Member {
            key: key as usize,
            colon: colon as usize,
            value: Mark {
                at: value as usize,
                byte: self.byte_at(value)?,
            },
        })
    }

    #[inline(always)]
    fn byte_at(&self, at: u32) -> Result<u8, Refused> {
        self.body.get(at as usize).copied().ok_or(Refused)
    }

    /// The first byte of a member's name as it is written, the closing quote of an empty one.
    #[inline(always)]
    pub fn name_begins_with(&self, member: &Member) -> u8 {
        self.body.get(member.key + 1).copied().unwrap_or_default()
    }

    /// A member's name. Has to be asked for before the member's value is read, if at all.
    #[inline(always)]
    pub fn name(&mut self, member: &Member) -> Result<&'a [u8], Refused> {
        let key = self.string(member.key, member.colon)?;
        let name = key.of(self.body);
        Ok(if key.kind == Kind::Escaped {
            names::spelled_with_escapes(name)
        } else {
            name
        })
    }
}

/// A member of an object: where its name is, and where its value begins, which is to be moved
/// past.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// The offset of the name's opening quote.
    key: usize,
    /// The offset of the colon behind the name.
    colon: usize,
    /// The first character of the value.
    pub value: Mark,
}

/// The first of some offsets; `usize::MAX` when there is none.
#[inline(always)]
fn first(offsets: &[u32]) -> usize {
    offsets.first().map_or(usize::MAX, |at| *at as usize)
}

/// What closes the innermost container.
#[inline(always)]
const fn closer(objects: u128) -> u8 {
    if objects & 1 == 1 { b'}' } else { b']' }
}
