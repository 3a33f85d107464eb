//! Finds strings that the engine reads as SQL while a statement runs.
//!
//! There are few: the columns of table functions given as a string (`a String ALIAS file('b')`),
//! the rows of `format(Values, …)`, and parameters used in these, or as a function's name.
//! Functions that parse SQL (`formatQuery`), that make a schema of columns
//! (`structureToProtobufSchema`), types in strings (`CAST(a, 'String')`) and schema hints run
//! nothing. Settings that would be SQL cannot be changed (`access`).

use crate::sql::lexer::{Kind, Lexer, Token};
use crate::sql::names::{token_name, unescaped, without_literals};

/// Table functions whose columns are given as a string, besides those that an operator opens.
const COLUMN_STRING_FUNCTIONS: [&str; 5] = ["format", "generaterandom", "input", "null", "values"];

/// Times its own length that the arguments of a statement are read: those of calls within calls are
/// read again for each call around them.
const AHEAD_FACTOR_MAX: usize = 8;

/// Parts of a statement that the engine reads as SQL, besides the statement's own text.
#[derive(Debug, Default)]
pub(super) struct IndirectSql {
    /// String literals and values of parameters are read as SQL.
    pub(super) literals: bool,
    /// The statement sets parameters of other statements.
    pub(super) sets_parameters: bool,
    /// Parameters may be used as names.
    pub(super) names: bool,
    /// A table function whose string is made while the statement runs, or given later, and so
    /// cannot be checked.
    pub(super) unchecked: Option<String>,
    /// The end of the statement was not read ([`Kind::Unreadable`]).
    pub(super) is_unreadable: bool,
}

/// Analyses a statement; `is_opened` is true for table functions that the operator has opened.
pub(super) fn find(sql: &[u8], is_opened: &dyn Fn(&str) -> bool) -> IndirectSql {
    let is_plain = without_literals(sql).is_some();
    let mut lexer = Lexer::new(sql);
    let is_ddl = lexer.peek().is_some_and(|first| {
        ["CREATE", "ALTER", "ATTACH", "REPLACE"]
            .iter()
            .any(|word| first.is(word))
    });
    let (mut indirect, mut context, mut froms) = (
        IndirectSql::default(),
        TokenContext::default(),
        Froms::default(),
    );
    let mut ahead_bytes = 0;
    while let Some(token) = lexer.next() {
        indirect.is_unreadable |= token.kind == Kind::Unreadable;
        froms.advance(&token, &context);
        indirect.sets_parameters |= token.kind == Kind::Word && token.text.starts_with(b"param_");
        indirect.names |= token.is("Identifier");
        if opens(lexer.peek())
            && let Some(name) = token_name(&token)
        {
            let takes_columns = COLUMN_STRING_FUNCTIONS.contains(&name.as_str());
            let is_table = name != "format" || context.is_table(froms.contains(token.depth));
            indirect.literals |= (takes_columns && (is_table || !is_plain)) || is_opened(&name);
            let mut ahead = lexer;
            let is_unchecked = takes_columns
                && is_table
                && (!is_plain || !are_literals(&name, is_ddl, &mut ahead, token.depth));
            ahead_bytes += ahead.at() - lexer.at();
            let mut ahead = lexer;
            let is_passed = is_ddl && calls_its_arguments(&name) && passes_a_parameter(&mut ahead);
            ahead_bytes += ahead.at() - lexer.at();
            let is_too_nested = ahead_bytes > AHEAD_FACTOR_MAX * sql.len();
            if is_unchecked || is_passed || is_too_nested {
                indirect.unchecked = Some(name);
                return indirect;
            }
        }
        context.advance(&token);
    }
    indirect.literals |= indirect.sets_parameters;
    indirect
}

/// Returns true for functions that take a function as an argument, by their prefixes.
pub(super) fn calls_its_arguments(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("array") || name.starts_with("map")
}

/// Finds a word or string literal of a statement that sets parameters that `is_function` (asked in
/// lower case): any of them may be a function's name.
pub(super) fn parameter_word(sql: &[u8], is_function: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut lexer = Lexer::new(sql);
    // One at a time: there may be as many as the statement has bytes.
    while let Some(token) = lexer.next() {
        let value = unescaped(token.text).to_ascii_lowercase();
        let value = String::from_utf8_lossy(&value);
        let word = value.trim_matches(['\'', '"', '`', '$', ' ']);
        if is_function(word) {
            return Some(word.to_owned());
        }
    }
    None
}

/// Depths at which tables are listed after a FROM, ascending.
#[derive(Debug, Default)]
struct Froms(Vec<usize>);

impl Froms {
    fn contains(&self, depth: usize) -> bool {
        self.0.last() == Some(&depth)
    }

    fn advance(&mut self, token: &Token<'_>, context: &TokenContext) {
        while self.0.pop_if(|depth| *depth > token.depth).is_some() {}
        if token.is("FROM") && !self.contains(token.depth) {
            self.0.push(token.depth);
        } else if token.is("SELECT") || context.ends_tables(token) {
            self.0.pop_if(|depth| *depth == token.depth);
        }
    }
}

/// Syntax before the current token.
#[derive(Debug, Default)]
struct TokenContext {
    is_table_next: bool,
    is_comma: bool,
    is_dot: bool,
    /// The last word takes tables as arguments.
    takes_tables: bool,
    is_open: bool,
}

impl TokenContext {
    /// Returns true where a table is expected; `in_from`: after a FROM of the same SELECT.
    fn is_table(&self, in_from: bool) -> bool {
        self.is_table_next || (self.is_comma && in_from) || (self.is_open && self.takes_tables)
    }

    /// Returns true if a list of tables ends at this word, and the word is no table or alias.
    fn ends_tables(&self, token: &Token<'_>) -> bool {
        const WORDS: [&str; 9] = [
            "WHERE", "PREWHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT",
            "SETTINGS",
        ];
        let is_name = self.is_table_next || self.is_comma || self.is_dot;
        !is_name && WORDS.iter().any(|word| token.is(word))
    }

    fn advance(&mut self, token: &Token<'_>) {
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

/// Returns true if all arguments are literals: strings, numbers, parameters of a statement that
/// runs now, and a format's name. For `values` only the first one counts, which may be the columns;
/// the others are rows.
fn are_literals(function: &str, is_ddl: bool, lexer: &mut Lexer<'_>, depth: usize) -> bool {
    lexer.next();
    if function == "values" && opens(lexer.peek()) {
        return is_row(lexer, depth + 1);
    }
    let (mut index, mut in_parameter) = (0, false);
    while let Some(token) = lexer.next().filter(|token| token.depth > depth) {
        let is_number = token.text.first().is_some_and(u8::is_ascii_digit);
        let is_fine = match token.kind {
            Kind::Punctuation(b'{') if !is_ddl => {
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
            Kind::Unreadable => false,
            Kind::Word => is_number || token.is("NULL") || (function == "format" && index == 0),
        };
        if !is_fine {
            return false;
        }
    }
    true
}

/// Returns true if a row of several values comes next and is used as it is. A single value in
/// parentheses may be a string.
fn is_row(lexer: &mut Lexer<'_>, depth: usize) -> bool {
    lexer.next();
    let mut has_several = false;
    while let Some(token) = lexer.next().filter(|token| token.depth > depth) {
        has_several |= token.depth == depth + 1 && token.kind == Kind::Punctuation(b',');
    }
    let ends = |next: Token<'_>| matches!(next.kind, Kind::Punctuation(b',' | b')'));
    has_several && lexer.next().is_none_or(ends)
}

/// Returns true if a parameter is passed where a function takes another function: a view's
/// parameter is given later.
fn passes_a_parameter(lexer: &mut Lexer<'_>) -> bool {
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
