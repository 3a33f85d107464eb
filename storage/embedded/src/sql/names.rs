//! Names of table functions and engines in a statement.

use super::lexer::{Kind, Lexer, Token};

/// Finds the first refused name that is called like a function, in lower case. A table's name
/// before its columns does not count.
pub(crate) fn refused_call(sql: &[u8], is_refused: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut lexer = Lexer::new(sql);
    let begins = |words: [&str; 2]| {
        lexer
            .peek()
            .is_some_and(|first| words.iter().any(|word| first.is(word)))
    };
    let (is_described, is_backup) = (begins(["DESC", "DESCRIBE"]), begins(["BACKUP", "RESTORE"]));
    let (mut last, mut before): (Option<Token<'_>>, Option<Token<'_>>) = (None, None);
    while let Some(token) = lexer.next() {
        let opens = |next: Token<'_>| next.kind == Kind::Punctuation(b'(');
        if let Some(name) = token_name(&token)
            && is_refused(&name)
            && lexer.peek().is_some_and(opens)
            && !is_table(last, before, is_described)
            && !(is_backup && name == "file" && is_backup_location(last))
        {
            return Some(name);
        }
        (before, last) = (last, Some(token));
    }
    None
}

/// Returns true where only a table's name can stand: after `INTO`, `TABLE`, `IF NOT EXISTS` or a
/// database's name.
fn is_table(last: Option<Token<'_>>, before: Option<Token<'_>>, is_described: bool) -> bool {
    let Some(last) = last else { return false };
    let is_before = |word| before.is_some_and(|token| token.is(word));
    match last.kind {
        Kind::Punctuation(b'.') => before.is_some_and(|token| token_name(&token).is_some()),
        _ => {
            last.is("INTO")
                || (last.is("TABLE") && !is_described)
                || (last.is("EXISTS") && is_before("NOT"))
        }
    }
}

/// Returns true where the location of a backup follows.
fn is_backup_location(last: Option<Token<'_>>) -> bool {
    last.is_some_and(|last| {
        last.is("TO") || last.is("FROM") || last.kind == Kind::Punctuation(b'=')
    })
}

/// Finds the first refused engine that a CREATE, ATTACH or REPLACE names, in lower case.
pub(crate) fn refused_engine(sql: &[u8], is_refused: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut lexer = Lexer::new(sql);
    let mut is_ddl = false;
    while let Some(token) = lexer.next() {
        is_ddl |= ["CREATE", "ATTACH", "REPLACE"]
            .iter()
            .any(|word| token.is(word));
        if !is_ddl || !token.is("ENGINE") {
            continue;
        }
        let mut ahead = lexer;
        let mut next = ahead.next();
        if next.is_some_and(|token| token.kind == Kind::Punctuation(b'=')) {
            next = ahead.next();
        }
        if let Some(name) = next.as_ref().and_then(token_name)
            && is_refused(&name)
        {
            return Some(name);
        }
    }
    None
}

/// Name that a token is, in lower case: a word, or the content of double or back quotes. Letters
/// that are not ASCII are left out: the engine takes some of them for quotes and blanks.
pub(crate) fn token_name(token: &Token<'_>) -> Option<String> {
    let inner = match (token.kind, token.text) {
        (Kind::Quoted, [b'"' | b'`', inner @ .., _]) => inner,
        (Kind::Word, text) => text,
        _ => return None,
    };
    let inner = unescaped(inner);
    let letters = inner
        .rsplit(|byte| !byte.is_ascii())
        .find(|part| !part.is_empty())?;
    let first = *letters.first()?;
    (!first.is_ascii_digit()).then(|| String::from_utf8_lossy(letters).to_ascii_lowercase())
}

/// Rewrites a statement with empty string literals, plain words for quoted names, and no comments.
/// Returns `None` where the engine may see the ends of literals elsewhere: it knows other quotes,
/// which are not ASCII.
pub(crate) fn without_literals(sql: &[u8]) -> Option<Vec<u8>> {
    let (mut lexer, mut plain) = (Lexer::new(sql), Vec::new());
    while let Some(token) = lexer.next() {
        match (token.kind, token.text) {
            (Kind::Quoted, [b'\'' | b'$', ..]) => plain.extend_from_slice(b"''"),
            (Kind::Quoted, [_, inner @ .., _]) => {
                let to_word_byte = |byte: u8| match byte {
                    byte if byte.is_ascii_alphanumeric() => byte,
                    _ => b'_',
                };
                plain.push(b'"');
                plain.extend(unescaped(inner).into_iter().map(to_word_byte));
                plain.push(b'"');
            }
            (_, [b'$', ..]) => return None,
            (_, text) if !text.is_ascii() => return None,
            (_, text) => plain.extend_from_slice(text),
        }
        plain.push(b' ');
    }
    Some(plain)
}

/// Resolves the escapes of a quoted text or name.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return plain,
            [b'\\', b'x' | b'X', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                plain.push(nibble(*high) << 4 | nibble(*low));
                tail
            }
            // The control characters all count as blanks.
            [
                b'\\',
                b'a' | b'b' | b'e' | b'f' | b'n' | b'r' | b't' | b'v' | b'0' | b'N',
                tail @ ..,
            ] => {
                plain.push(b' ');
                tail
            }
            [b'\\', byte, tail @ ..] => {
                plain.push(*byte);
                tail
            }
            [b'\\'] => return plain,
            [byte, tail @ ..] => {
                plain.push(*byte);
                tail
            }
        };
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
