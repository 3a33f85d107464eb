//! SQL as words, quoted texts and punctuation.

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Word,
    Quoted,
    Punctuation(u8),
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a [u8],
    pub(super) start: usize,
    pub(super) end: usize,
    /// Parentheses, brackets and braces open around it.
    pub(super) depth: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted)
    }
}

/// Splits SQL into tokens, leaving out blanks and comments. Copying it is looking ahead.
#[derive(Copy, Clone)]
pub(super) struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    depth: usize,
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    pub(super) fn new(sql: &'a [u8]) -> Self {
        Self {
            sql,
            at: 0,
            depth: 0,
        }
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        let mut ahead = *self;
        ahead.next()
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks_and_comments();
        let start = self.at;
        let first = *self.sql.get(start)?;
        let kind = match first {
            b'\'' | b'"' | b'`' => {
                self.at = self.after_quoted(start, first);
                Kind::Quoted
            }
            byte if is_word(byte) => {
                let rest = self.sql.get(start..)?;
                self.at = start + rest.iter().take_while(|byte| is_word(**byte)).count();
                Kind::Word
            }
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

    /// Where a quoted text ends: backslash escapes and doubled quotes do not end it. Unclosed: the end of the SQL.
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

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let Some(rest) = self.sql.get(self.at..) else {
                return;
            };
            self.at += match rest {
                [byte, ..] if byte.is_ascii_whitespace() => 1,
                [b'-', b'-', ..] | [b'#', b' ' | b'!', ..] => rest
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len()),
                [b'/', b'*', ..] => rest
                    .windows(2)
                    .skip(2)
                    .position(|pair| pair == b"*/")
                    .map_or(rest.len(), |at| at + 4),
                _ => return,
            };
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}
