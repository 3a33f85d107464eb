//! What reads a text as SQL while a statement runs.
//!
//! The engine does so in few places: table functions that are told their columns as a text (`a String ALIAS file('b')`),
//! the rows of `format(Values, …)`, and parameters that are put there, or in the place of a function's name. Functions
//! that take SQL apart (`formatQuery`), that make a schema of columns (`structureToProtobufSchema`), types in texts
//! (`CAST(a, 'String')`) and the hints of schemas run nothing. Settings that would be SQL nobody may change (`access`).

use super::calls::calls_its_arguments;
use crate::sql::lexer::{Kind, Lexer, Token};
use crate::sql::names::{name, unescaped, without_texts};

/// Table functions that are told their columns, besides those that an operator opens.
const READERS: [&str; 5] = ["format", "generaterandom", "input", "null", "values"];

/// What of a statement the engine reads as SQL, besides its own text.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Its texts, and those of its parameters.
    pub(super) texts: bool,
    /// It sets parameters of other statements.
    pub(super) sets: bool,
    /// Parameters may be names.
    pub(super) names: bool,
    /// A table function whose text is made while the statement runs, or given later, so that nobody can judge it.
    pub(super) unseen: Option<String>,
}

/// Looks at a statement; `is_opened` says which table functions the operator has opened.
pub(super) fn reads(sql: &[u8], is_opened: &dyn Fn(&str) -> bool) -> Reads {
    let is_plain = without_texts(sql).is_some();
    let mut lexer = Lexer::new(sql);
    let makes = lexer.peek().is_some_and(|first| {
        ["CREATE", "ALTER", "ATTACH", "REPLACE"]
            .iter()
            .any(|word| first.is(word))
    });
    let (mut reads, mut place, mut froms) = (Reads::default(), Place::default(), Vec::new());
    while let Some(token) = lexer.next() {
        froms.retain(|depth| *depth <= token.depth);
        if token.is("FROM") {
            froms.push(token.depth);
        } else if token.is("SELECT") || place.ends_tables(&token) {
            froms.retain(|depth| *depth < token.depth);
        }
        reads.sets |= token.kind == Kind::Word && token.text.starts_with(b"param_");
        reads.names |= token.is("Identifier");
        if opens(lexer.peek())
            && let Some(name) = name(&token)
        {
            let is_reader = READERS.contains(&name.as_str());
            let is_table = name != "format" || place.is_table(froms.contains(&token.depth));
            reads.texts |= (is_reader && (is_table || !is_plain)) || is_opened(&name);
            let is_unseen = is_reader
                && is_table
                && (!is_plain || !are_literals(&name, makes, lexer, token.depth));
            let is_passed = makes && calls_its_arguments(&name) && passes_a_parameter(lexer);
            if is_unseen || is_passed {
                reads.unseen = Some(name);
            }
        }
        place.go_on(&token);
    }
    reads.texts |= reads.sets;
    reads
}

/// The words and the texts of a statement that sets parameters, one of which may be a function's name.
pub(super) fn values(sql: &[u8]) -> Vec<String> {
    let (mut lexer, mut values) = (Lexer::new(sql), Vec::new());
    while let Some(token) = lexer.next() {
        let value = unescaped(token.text).to_ascii_lowercase();
        let value = String::from_utf8_lossy(&value).into_owned();
        values.push(value.trim_matches(['\'', '"', '`', '$', ' ']).to_owned());
    }
    values
}

/// What stands before a name.
#[derive(Debug, Default)]
struct Place {
    is_table_next: bool,
    is_comma: bool,
    is_dot: bool,
    /// The last word takes tables in parentheses.
    takes_tables: bool,
    is_open: bool,
}

impl Place {
    /// Whether a table stands here; `in_from`: behind a FROM of the same SELECT.
    fn is_table(&self, in_from: bool) -> bool {
        self.is_table_next || (self.is_comma && in_from) || (self.is_open && self.takes_tables)
    }

    /// Whether a list of tables ends here, and no table or alias of that name stands there.
    fn ends_tables(&self, token: &Token<'_>) -> bool {
        const WORDS: [&str; 9] = [
            "WHERE", "PREWHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT",
            "SETTINGS",
        ];
        let is_name = self.is_table_next || self.is_comma || self.is_dot;
        !is_name && WORDS.iter().any(|word| token.is(word))
    }

    fn go_on(&mut self, token: &Token<'_>) {
        let words = [
            "FROM", "JOIN", "FUNCTION", "AS", "IN", "TABLE", "DESCRIBE", "DESC",
        ];
        self.is_table_next = words.iter().any(|word| token.is(word));
        self.is_dot = token.kind == Kind::Punctuation(b'.');
        self.is_comma = token.kind == Kind::Punctuation(b',');
        self.is_open = token.kind == Kind::Punctuation(b'(');
        if token.is_name() {
            self.takes_tables = self.is_table_next || token.is("loop");
        }
    }
}

fn opens(token: Option<Token<'_>>) -> bool {
    token.is_some_and(|token| token.kind == Kind::Punctuation(b'('))
}

/// Whether the arguments are written down: texts, numbers, parameters of a statement that runs now, and a format's name.
/// Those of `values` are rows behind the first, which may be a text of columns.
fn are_literals(function: &str, makes: bool, mut lexer: Lexer<'_>, depth: usize) -> bool {
    lexer.next();
    if function == "values" && opens(lexer.peek()) {
        return is_row(lexer, depth + 1);
    }
    let (mut index, mut in_parameter) = (0, false);
    while let Some(token) = lexer.next().filter(|token| token.depth > depth) {
        let is_number = token.text.first().is_some_and(u8::is_ascii_digit);
        let is_fine = match token.kind {
            Kind::Punctuation(b'{') if !makes => {
                in_parameter = true;
                true
            }
            Kind::Punctuation(b'}') => {
                in_parameter = false;
                true
            }
            _ if in_parameter => true,
            Kind::Punctuation(b',') if function == "values" => return true,
            Kind::Punctuation(b',') => {
                index += 1;
                true
            }
            Kind::Punctuation(byte) => matches!(byte, b'-' | b'+' | b'.'),
            Kind::Quoted => matches!(token.text, [b'\'' | b'$', ..]),
            Kind::Word => is_number || token.is("NULL") || (function == "format" && index == 0),
        };
        if !is_fine {
            return false;
        }
    }
    true
}

/// Whether a row of several values comes next, and nothing is made of it. One alone in parentheses may be a text.
fn is_row(mut lexer: Lexer<'_>, depth: usize) -> bool {
    lexer.next();
    let mut has_several = false;
    while let Some(token) = lexer.next().filter(|token| token.depth > depth) {
        has_several |= token.depth == depth + 1 && token.kind == Kind::Punctuation(b',');
    }
    let ends = |next: Token<'_>| matches!(next.kind, Kind::Punctuation(b',' | b')'));
    has_several && lexer.next().is_none_or(ends)
}

/// Whether a parameter stands where a function takes another: a view's is given later.
fn passes_a_parameter(mut lexer: Lexer<'_>) -> bool {
    let Some(depth) = lexer.next().map(|open| open.depth + 1) else {
        return false;
    };
    let is_before = |token: Token<'_>| {
        let is_sign = matches!(token.kind, Kind::Punctuation(b'(' | b'+' | b'-'));
        is_sign || token.is("ALL") || token.is("DISTINCT")
    };
    while lexer.peek().is_some_and(is_before) {
        lexer.next();
    }
    let begins = |token: Token<'_>| token.kind == Kind::Punctuation(b'{');
    if !lexer.next().is_some_and(begins) {
        return false;
    }
    let (mut is_name, mut has_more) = (false, false);
    while let Some(token) = lexer.next().filter(|token| token.depth >= depth) {
        is_name |= token.is("Identifier");
        has_more |= token.depth == depth && token.kind == Kind::Punctuation(b',');
    }
    is_name && has_more
}
