//! The names in a statement where a table function or an engine stands.

use super::lexer::{Kind, Lexer, Token};

/// The first name that is called like a function and refused, in lower case. A table's name before its columns is none.
pub(crate) fn call(sql: &[u8], is_refused: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut lexer = Lexer::new(sql);
    let begins = |words: [&str; 2]| {
        lexer
            .peek()
            .is_some_and(|first| words.iter().any(|word| first.is(word)))
    };
    let (is_described, is_copy) = (begins(["DESC", "DESCRIBE"]), begins(["BACKUP", "RESTORE"]));
    let (mut last, mut before): (Option<Token<'_>>, Option<Token<'_>>) = (None, None);
    while let Some(token) = lexer.next() {
        let opens = |next: Token<'_>| next.kind == Kind::Punctuation(b'(');
        if let Some(name) = name(&token)
            && is_refused(&name)
            && lexer.peek().is_some_and(opens)
            && !is_table(last, before, is_described)
            && !(is_copy && name == "file" && is_place(last))
        {
            return Some(name);
        }
        (before, last) = (last, Some(token));
    }
    None
}

/// Whether a name stands where only a table's can: behind `INTO`, `TABLE`, `IF NOT EXISTS` or a database's.
fn is_table(last: Option<Token<'_>>, before: Option<Token<'_>>, is_described: bool) -> bool {
    let Some(last) = last else { return false };
    let is_before = |word| before.is_some_and(|token| token.is(word));
    match last.kind {
        Kind::Punctuation(b'.') => before.is_some_and(|token| name(&token).is_some()),
        _ => {
            last.is("INTO")
                || (last.is("TABLE") && !is_described)
                || (last.is("EXISTS") && is_before("NOT"))
        }
    }
}

/// Whether what follows says where a backup is.
fn is_place(last: Option<Token<'_>>) -> bool {
    last.is_some_and(|last| {
        last.is("TO") || last.is("FROM") || last.kind == Kind::Punctuation(b'=')
    })
}

/// The first engine that a statement which makes something names and that is refused, in lower case.
pub(crate) fn engine(sql: &[u8], is_refused: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut lexer = Lexer::new(sql);
    let mut makes = false;
    while let Some(token) = lexer.next() {
        makes |= ["CREATE", "ATTACH", "REPLACE"]
            .iter()
            .any(|word| token.is(word));
        if !makes || !token.is("ENGINE") {
            continue;
        }
        let mut ahead = lexer;
        let mut next = ahead.next();
        if next.is_some_and(|token| token.kind == Kind::Punctuation(b'=')) {
            next = ahead.next();
        }
        if let Some(name) = next.as_ref().and_then(name)
            && is_refused(&name)
        {
            return Some(name);
        }
    }
    None
}

/// A word, or what stands in double or back quotes, in lower case. Letters that are not ASCII are left out: the engine
/// takes some of them for quotes and blanks.
pub(crate) fn name(token: &Token<'_>) -> Option<String> {
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

/// A statement whose texts are empty, whose quoted names hold nothing but words, without comments; `None` where the engine
/// may see the ends of texts elsewhere: it knows other quotes, of letters that are not ASCII.
pub(crate) fn without_texts(sql: &[u8]) -> Option<Vec<u8>> {
    let (mut lexer, mut plain) = (Lexer::new(sql), Vec::new());
    while let Some(token) = lexer.next() {
        match (token.kind, token.text) {
            (Kind::Quoted, [b'\'' | b'$', ..]) => plain.extend_from_slice(b"''"),
            (Kind::Quoted, [_, inner @ .., _]) => {
                let letter = |byte: u8| match byte {
                    byte if byte.is_ascii_alphanumeric() => byte,
                    _ => b'_',
                };
                plain.push(b'"');
                plain.extend(unescaped(inner).into_iter().map(letter));
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

/// A quoted text or name as its reader sees it.
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
            // Which control character it stands for does not matter: they are blanks, all of them.
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
