//! Lexer that splits SQL into words, quoted texts and punctuation, in time linear in its length.

/// Texts `$tag$` without an end up to which a statement is read: each is looked for up to the end
/// of the statement, here and by the engine.
const OPEN_HEREDOCS_MAX: u8 = 64;
/// Quotes that the engine knows besides those of ASCII.
const TYPOGRAPHIC_QUOTES: [(&str, &str); 2] = [("\u{2018}", "\u{2019}"), ("\u{201c}", "\u{201d}")];

/// Blank of the engine that is none of Rust's ASCII.
const VERTICAL_TAB: u8 = 0x0b;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Word,
    Quoted,
    Punctuation(u8),
    /// The rest of a statement in which the engine may see other texts than we do, or that has too
    /// many heredocs without an end.
    Unreadable,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a [u8],
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Number of parentheses, brackets and braces open around the token.
    pub(crate) depth: usize,
}

impl Token<'_> {
    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted)
    }
}

/// Splits SQL into tokens, skipping blanks and comments. A copy looks ahead.
#[derive(Copy, Clone)]
pub(crate) struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    depth: usize,
    /// Heredocs without an end before this position.
    open_heredocs: u8,
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    pub(crate) fn new(sql: &'a [u8]) -> Self {
        Self {
            sql,
            at: 0,
            depth: 0,
            open_heredocs: 0,
        }
    }

    /// Offset behind the last token.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        let mut ahead = *self;
        ahead.next()
    }

    pub(crate) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks_and_comments();
        let start = self.at;
        let first = *self.sql.get(start)?;
        let kind = match first {
            b'\'' | b'"' | b'`' => {
                self.at = self.after_quoted(start, first);
                Kind::Quoted
            }
            b'$' if let Some(end) = self.after_heredoc(start) => {
                self.at = end;
                Kind::Quoted
            }
            b'$' if self.open_heredocs > OPEN_HEREDOCS_MAX => self.unreadable(),
            _ if let Some(quotes) = typographic_quotes(self.sql, start) => {
                self.typographic(start, quotes)
            }
            byte if is_word(byte) => self.word(start),
            byte => {
                self.at = start + 1;
                Kind::Punctuation(byte)
            }
        };
        if matches!(first, b')' | b']' | b'}') {
            self.depth = self.depth.saturating_sub(1);
        }
        let token = Token {
            kind,
            text: self.sql.get(start..self.at)?,
            start,
            end: self.at,
            depth: self.depth,
        };
        if matches!(first, b'(' | b'[' | b'{') {
            self.depth += 1;
        }
        Some(token)
    }

    /// Moves behind a word.
    fn word(&mut self, start: usize) -> Kind {
        let rest = self.sql.get(start..).unwrap_or_default();
        self.at = start + rest.iter().take_while(|byte| is_word(**byte)).count();
        Kind::Word
    }

    /// Moves to the end.
    fn unreadable(&mut self) -> Kind {
        self.at = self.sql.len();
        Kind::Unreadable
    }

    /// Offset of a quoted text's end; backslash escapes and doubled quotes do not end it. An
    /// unclosed one ends with the SQL.
    fn after_quoted(&self, start: usize, quote: u8) -> usize {
        let mut at = start + 1;
        while let Some(byte) = self.sql.get(at) {
            at += match byte {
                b'\\' => 2,
                byte if *byte == quote && self.sql.get(at + 1) == Some(&quote) => 2,
                byte if *byte == quote => return at + 1,
                _ => 1,
            };
        }
        self.sql.len()
    }

    /// Offset of the end of `$tag$ … $tag$`, if it is one. Counts tags that do not come again.
    fn after_heredoc(&mut self, start: usize) -> Option<usize> {
        let rest = self.sql.get(start..)?;
        let is_tag = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let length = rest.get(1..)?.iter().take_while(is_tag).count() + 2;
        let tag = rest.get(..length).filter(|tag| tag.ends_with(b"$"))?;
        match memchr::memmem::find(rest.get(length..)?, tag) {
            Some(inside) => Some(start + length + inside + length),
            None => {
                self.open_heredocs = self.open_heredocs.saturating_add(1);
                None
            }
        }
    }

    /// Moves behind a text between typographic quotes; one that is not plain is unreadable.
    fn typographic(&mut self, start: usize, (open, close): &(&str, &str)) -> Kind {
        let rest = self.sql.get(start + open.len()..).unwrap_or_default();
        let end = memchr::memmem::find(rest, close.as_bytes());
        // Characters that neither end the text earlier nor begin another text or a comment.
        let is_plain = |byte: &u8| {
            byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"_.,()".contains(byte)
        };
        match end {
            Some(end) if rest.iter().take(end).all(is_plain) => {
                self.at = start + open.len() + end + close.len();
                Kind::Word
            }
            _ => self.unreadable(),
        }
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let Some(rest) = self.sql.get(self.at..) else {
                return;
            };
            self.at += match rest {
                [byte, ..] if byte.is_ascii_whitespace() || *byte == VERTICAL_TAB => 1,
                // The engine takes some of these for blanks, and fails at the others.
                [byte, ..]
                    if !byte.is_ascii() && typographic_quotes(self.sql, self.at).is_none() =>
                {
                    1
                }
                _ => match comment_length(rest) {
                    Some(length) => length,
                    None => return,
                },
            };
        }
    }
}

/// Length of the comment that a text begins with. Comments nest.
pub(crate) fn comment_length(text: &[u8]) -> Option<usize> {
    match text {
        [b'-', b'-', ..] | [b'/', b'/', ..] | [b'#', b' ' | b'!', ..] => {
            Some(memchr::memchr(b'\n', text).unwrap_or(text.len()))
        }
        [b'/', b'*', ..] => {
            let (mut at, mut depth) = (2, 1_usize);
            while depth > 0 {
                at += match text.get(at..)? {
                    [b'*', b'/', ..] => {
                        depth -= 1;
                        2
                    }
                    [b'/', b'*', ..] => {
                        depth += 1;
                        2
                    }
                    [] => return Some(text.len()),
                    _ => 1,
                };
            }
            Some(at)
        }
        _ => None,
    }
}

/// Typographic quotes, if one opens there.
fn typographic_quotes(sql: &[u8], at: usize) -> Option<&'static (&'static str, &'static str)> {
    let rest = sql.get(at..)?;
    let mut quotes = TYPOGRAPHIC_QUOTES.iter();
    quotes.find(|(open, _)| rest.starts_with(open.as_bytes()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<Kind> {
        let mut lexer = Lexer::new(sql.as_bytes());
        std::iter::from_fn(|| lexer.next().map(|token| token.kind)).collect()
    }

    #[test]
    fn texts_whose_end_is_uncertain_are_unreadable() {
        for (sql, expected) in [
            ("$$ ' $$", vec![Kind::Quoted]),
            ("$a$ ' $b$ $a$ b", vec![Kind::Quoted, Kind::Word]),
            ("$a$ b", vec![Kind::Word, Kind::Word]),
            ("$group_0 $group_1", vec![Kind::Word, Kind::Word]),
            ("$a $b $a $b", vec![Kind::Word; 4]),
            ("\u{2018}a b\u{2019} c", vec![Kind::Word; 2]),
            ("a\u{b}b\u{a0}c", vec![Kind::Word; 3]),
            ("\u{2018} ' \u{2019} b", vec![Kind::Unreadable]),
            (
                "a\u{201c} \" \u{201d} b",
                vec![Kind::Word, Kind::Unreadable],
            ),
            ("\u{2018} a", vec![Kind::Unreadable]),
            (
                "'\u{2018}' gr\u{f6}\u{df}e",
                vec![Kind::Quoted, Kind::Word, Kind::Word],
            ),
        ] {
            assert_eq!(kinds(sql), expected, "{sql}");
        }
    }

    #[test]
    fn heredocs_without_an_end_are_searched_a_fixed_number_of_times_however_many_there_are() {
        let searches_max = usize::from(OPEN_HEREDOCS_MAX) + 1;
        for count in [searches_max - 1, searches_max, 10 * searches_max, 100_000] {
            let sql: String = (0..count).map(|number| format!("${number}$ ")).collect();
            let kinds = kinds(&sql);
            let is_readable = count < searches_max;
            assert_eq!(kinds.len(), count.min(searches_max));
            assert_eq!(
                kinds.last(),
                Some(if is_readable {
                    &Kind::Word
                } else {
                    &Kind::Unreadable
                })
            );
        }
        let closed: String = (0..1_000).map(|it| format!("${it}$ ' ${it}$ ")).collect();
        assert_eq!(kinds(&closed), [Kind::Quoted; 1_000]);
    }
}
