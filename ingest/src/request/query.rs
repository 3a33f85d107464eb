//! Query parameters of capture paths; unknown ones are ignored.

use millrace_encoding::unescaped;
use millrace_rows::Lane;
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// Query parameters of a capture path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// `compression`: encoding of the body, or of `data`.
    pub compression: Option<Cow<'a, [u8]>>,
    /// `data`: payload of a GET.
    pub data: Option<Cow<'a, [u8]>>,
    /// `_`: time at which the request was sent, in milliseconds.
    pub sent_at: Option<Cow<'a, str>>,
    /// `beacon=1`: the client does not read the response.
    pub beacon: bool,
    /// `strict=true`: all or nothing.
    pub strict: bool,
    /// `dry_run=true`: nothing is stored.
    pub dry_run: bool,
    /// `historical_migration=true`: the request is an import.
    pub historical_migration: bool,
    /// Name of a flag whose value is neither true nor false: guessing could lose an import or store
    /// what was not to be stored.
    pub unclear: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// Reads a query string; of a parameter given twice the last one counts.
    pub fn of(text: Option<&'a str>) -> Self {
        let mut query = Self::default();
        for pair in text.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "compression" => query.compression = Some(unescaped(value)),
                "data" => query.data = Some(unescaped(value)).filter(|data| !data.is_empty()),
                "_" => query.sent_at = percent_decode(value.as_bytes()).decode_utf8().ok(),
                "beacon" => query.beacon = is_true(value),
                "strict" => query.strict = query.flag(name, value),
                "dry_run" => query.dry_run = query.flag(name, value),
                "historical_migration" => query.historical_migration = query.flag(name, value),
                _ => {}
            }
        }
        query
    }

    /// Lane of the request, as far as its query tells.
    pub const fn lane(&self) -> Lane {
        match self.historical_migration {
            true => Lane::Historical,
            false => Lane::Live,
        }
    }

    /// Reads a flag's value; a flag without a value is set.
    fn flag(&mut self, name: &'a str, value: &str) -> bool {
        let is_false = value == "0" || value.eq_ignore_ascii_case("false");
        let is_set = value.is_empty() || is_true(value);
        if !is_false && !is_set {
            self.unclear = Some(name);
        }
        is_set
    }
}

fn is_true(value: &str) -> bool {
    value == "1" || value.eq_ignore_ascii_case("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_true_false_or_unclear() {
        let table = [
            ("strict", Some(true)),
            ("strict=1", Some(true)),
            ("strict=True", Some(true)),
            ("strict=0", Some(false)),
            ("strict=false", Some(false)),
            ("strict=yes", None),
        ];
        for (text, expected) in table {
            let query = Query::of(Some(text));
            assert_eq!(
                query.unclear.is_none().then_some(query.strict),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn parameters_are_found_among_unknown_ones() {
        let query = Query::of(Some(
            "ip=1&_=1700000000000&ver=1.150.0&compression=gzip%2Djs&beacon=1&strict=TRUE&dry_run=0",
        ));
        assert_eq!(query.sent_at.as_deref(), Some("1700000000000"));
        assert_eq!(query.compression.as_deref(), Some(&b"gzip-js"[..]));
        assert!(query.beacon && query.strict && !query.dry_run && !query.historical_migration);
        assert_eq!(Query::of(None), Query::default());
        assert_eq!(Query::of(Some("data=")).data, None);
        assert_eq!(
            Query::of(Some("data=a+b%2b")).data.as_deref(),
            Some(&b"a b+"[..])
        );
    }
}
