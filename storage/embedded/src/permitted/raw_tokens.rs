//! Splits a statement into words and signs, without regard to quotes.

use crate::sql::lexer::comment_length;

/// A word or a sign.
#[derive(Copy, Clone)]
pub(super) struct RawToken<'a> {
    pub(super) text: &'a str,
    /// True if it has a single quote on either side: a string literal of its own.
    pub(super) is_text: bool,
}

/// Iterator over words and signs, without blanks, quotes, and anything that is not ASCII.
#[derive(Copy, Clone)]
pub(super) struct RawTokens<'a> {
    text: &'a [u8],
    at: usize,
    skips_comments: bool,
}

impl<'a> RawTokens<'a> {
    pub(super) fn new(text: &'a [u8], skips_comments: bool) -> Self {
        Self {
            text,
            at: 0,
            skips_comments,
        }
    }

    /// Offset behind the last token.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the remaining tokens without comments.
    pub(super) fn without_comments(self) -> Self {
        Self {
            skips_comments: true,
            ..self
        }
    }
}

impl<'a> Iterator for RawTokens<'a> {
    type Item = RawToken<'a>;

    fn next(&mut self) -> Option<RawToken<'a>> {
        loop {
            let rest = self.text.get(self.at..)?;
            let first = *rest.first()?;
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            // Looked for only if comments are skipped: each nested comment without an end would be
            // read to the end.
            let comment = self.skips_comments.then(|| comment_length(rest)).flatten();
            let length = match first {
                byte if is_name(&byte) => rest.iter().take_while(|byte| is_name(byte)).count(),
                _ if comment.is_some() => {
                    self.at += comment.unwrap_or_default();
                    continue;
                }
                _ if !first.is_ascii_graphic() || b"'\"`\\".contains(&first) => {
                    self.at += 1;
                    continue;
                }
                _ => 1,
            };
            let (start, end) = (self.at, self.at + length);
            self.at = end;
            let quote = |at: Option<usize>| at.and_then(|at| self.text.get(at)) == Some(&b'\'');
            return Some(RawToken {
                text: std::str::from_utf8(self.text.get(start..end)?).unwrap_or_default(),
                is_text: quote(start.checked_sub(1)) && quote(Some(end)),
            });
        }
    }
}

/// Returns true for names, false for signs and numbers.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}
