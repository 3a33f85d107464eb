//! Bytes of a text that are not read yet.

/// Rest of a text. A reading that returns `None` may have taken bytes, unless it says otherwise.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Starts at the first byte of a text.
    pub(super) const fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// Returns `None` if bytes are left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Takes one byte, whatever it is.
    pub(super) fn any(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Takes a byte that the test accepts; takes nothing otherwise.
    fn matching(&mut self, accepts: impl FnOnce(u8) -> bool) -> Option<u8> {
        self.attempt(|rest| rest.any().filter(|byte| accepts(*byte)))
    }

    /// Takes the given byte; takes nothing if another one is next.
    pub(super) fn literal(&mut self, byte: u8) -> Option<()> {
        self.matching(|next| next == byte).map(|_| ())
    }

    /// Takes a digit, as its number; takes nothing if none is next.
    pub(super) fn digit(&mut self) -> Option<u8> {
        self.matching(|byte| byte.is_ascii_digit())
            .map(|digit| digit - b'0')
    }

    /// Takes that many digits, at most nine, as their number; takes nothing if there are fewer.
    pub(super) fn digits(&mut self, count: u8) -> Option<i32> {
        self.attempt(|rest| {
            (0..count).try_fold(0, |number, _| Some(number * 10 + i32::from(rest.digit()?)))
        })
    }

    /// Takes two digits, as their number; takes nothing if there are fewer.
    pub(super) fn pair(&mut self) -> Option<i8> {
        i8::try_from(self.digits(2)?).ok()
    }

    /// Takes a sign, as 1 or -1; takes nothing if none is next.
    pub(super) fn sign(&mut self) -> Option<i32> {
        let sign = self.matching(|byte| matches!(byte, b'+' | b'-'))?;
        Some(if sign == b'-' { -1 } else { 1 })
    }

    /// Reads; takes nothing if the reading fails.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = *self;
        let value = read(self);
        if value.is_none() {
            *self = start;
        }
        value
    }
}
