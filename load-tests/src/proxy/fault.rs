//! Faults and the words that name them.

use anyhow::{Context, Error, Result, bail};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A fault in a request to ClickHouse, or in the response to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refuses connections and cuts the existing ones.
    Down,
    /// Carries the request out and delays its response by this time.
    Slow(Duration),
    /// Reads the request and sends this response; ClickHouse never sees the request.
    Answer(CannedResponse),
    /// Carries the request out and sends this response all the same.
    After(CannedResponse),
    /// Sends the last genuine response to a request of the same kind; ClickHouse never sees the
    /// request. The first of each kind since the rule was set is passed through.
    StaleAnswer,
    /// Carries the request out and cuts the connection instead of responding.
    Lost,
    /// Carries the request out and does not respond while the fault lasts, then cuts the
    /// connection.
    Silent,
    /// Reads the request without carrying it out or responding; cuts the connection when the fault
    /// ends.
    Deaf,
    /// Carries the request out and cuts the connection after this many bytes of the response, its
    /// head included.
    CutAnswer(usize),
    /// Sends about half of the request to ClickHouse, then cuts both connections.
    CutRequest,
    /// Carries the request out with one more setting; ClickHouse's reaction is real.
    With {
        /// Name of the setting.
        name: String,
        /// Value of the setting.
        value: String,
    },
}

/// A response that ClickHouse did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannedResponse {
    /// HTTP status code.
    pub status: u16,
    /// ClickHouse's exception code, sent in the header, and in the body unless the status is a
    /// success.
    pub code: Option<u32>,
}

/// A fault with the requests that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Fault to inject.
    pub fault: Fault,
    /// Kind of the requests that it applies to.
    pub requests: RequestKind,
    /// Text in the address of the inserts that it applies to, such as a table in the statement, or
    /// table and month in the token; any if it is `None`.
    pub text: Option<String>,
    /// Applies the fault to the first of every so many such requests; 1 means all of them. Without
    /// meaning for [`Fault::Down`], which applies to connections.
    pub every: u64,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Any request.
    All,
    /// Inserts of rows.
    Inserts,
    /// Other requests: queries and schema changes.
    Questions,
}

impl RequestKind {
    /// Returns true if a request is of this kind.
    #[must_use]
    pub const fn covers(self, is_insert: bool) -> bool {
        match self {
            Self::All => true,
            Self::Inserts => is_insert,
            Self::Questions => !is_insert,
        }
    }
}

impl Rule {
    /// Returns true if it applies to a request with this query string.
    #[must_use]
    pub fn covers(&self, query: &str, is_insert: bool) -> bool {
        let has_text = self.text.as_ref().is_none_or(|text| query.contains(text));
        self.requests.covers(is_insert) && has_text
    }
}

impl CannedResponse {
    /// ClickHouse's text of the exception; empty without a code, or when the status is a success.
    #[must_use]
    pub fn text(self) -> String {
        match self.code {
            Some(code) if !(200..300).contains(&self.status) => {
                format!(
                    "Code: {code}. DB::Exception: injected. ({})\n",
                    name_of(code)
                )
            }
            _ => String::new(),
        }
    }
}

fn name_of(code: u32) -> &'static str {
    match code {
        60 => "UNKNOWN_TABLE",
        81 => "UNKNOWN_DATABASE",
        159 => "TIMEOUT_EXCEEDED",
        164 => "READONLY",
        202 => "TOO_MANY_SIMULTANEOUS_QUERIES",
        241 => "MEMORY_LIMIT_EXCEEDED",
        242 => "TABLE_IS_READ_ONLY",
        243 => "NOT_ENOUGH_SPACE",
        252 => "TOO_MANY_PARTS",
        497 => "ACCESS_DENIED",
        516 => "AUTHENTICATION_FAILED",
        999 => "KEEPER_EXCEPTION",
        _ => "INJECTED",
    }
}

// === Parsing and display ===

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        Ok(match (name, value) {
            ("down", None) => Self::Down,
            ("slow", Some(time)) => Self::Slow(humantime::parse_duration(time)?),
            ("answer", Some(given)) => Self::Answer(given.parse()?),
            ("after", Some(given)) => Self::After(given.parse()?),
            ("stale-answer", None) => Self::StaleAnswer,
            ("lost", None) => Self::Lost,
            ("silent", None) => Self::Silent,
            ("deaf", None) => Self::Deaf,
            ("cut-answer", Some(bytes)) => Self::CutAnswer(bytes.parse().context("cut-answer")?),
            ("cut-request", None) => Self::CutRequest,
            ("with", Some(setting)) => {
                let (name, value) = setting.split_once('=').context("with=SETTING=VALUE")?;
                Self::With {
                    name: name.to_owned(),
                    value: value.to_owned(),
                }
            }
            _ => bail!("{text:?} is not a fault; see `proxy --help`"),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("down"),
            Self::Slow(time) => write!(f, "slow={}", humantime::format_duration(*time)),
            Self::Answer(given) => write!(f, "answer={given}"),
            Self::After(given) => write!(f, "after={given}"),
            Self::StaleAnswer => f.write_str("stale-answer"),
            Self::Lost => f.write_str("lost"),
            Self::Silent => f.write_str("silent"),
            Self::Deaf => f.write_str("deaf"),
            Self::CutAnswer(bytes) => write!(f, "cut-answer={bytes}"),
            Self::CutRequest => f.write_str("cut-request"),
            Self::With { name, value } => write!(f, "with={name}={value}"),
        }
    }
}

impl FromStr for CannedResponse {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (status, code) = match text.split_once(':') {
            Some((status, code)) => (status, Some(code.parse().context("exception code")?)),
            None => (text, None),
        };
        let status: u16 = status.parse().context("status")?;
        if !(200..600).contains(&status) {
            bail!("{status} is not a status of a response");
        }
        Ok(Self { status, code })
    }
}

impl fmt::Display for CannedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}:{code}", self.status),
            None => write!(f, "{}", self.status),
        }
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut rule = Self {
            fault: words.next().context("no fault is named")?.parse()?,
            requests: RequestKind::All,
            text: None,
            every: 1,
        };
        for word in words {
            match word {
                "inserts" => rule.requests = RequestKind::Inserts,
                "questions" => rule.requests = RequestKind::Questions,
                _ => match word.strip_prefix("inserts=") {
                    Some(text) => {
                        rule.requests = RequestKind::Inserts;
                        rule.text = Some(text.to_owned());
                    }
                    None => rule.every = every(word)?,
                },
            }
        }
        Ok(rule)
    }
}

/// Parses the N of `1/N`.
fn every(word: &str) -> Result<u64> {
    let number = word
        .strip_prefix("1/")
        .and_then(|number| number.parse().ok());
    number
        .filter(|number| *number > 0)
        .with_context(|| format!("{word:?} is neither inserts, questions nor 1/N"))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)?;
        f.write_str(match self.requests {
            RequestKind::All => "",
            RequestKind::Inserts => " inserts",
            RequestKind::Questions => " questions",
        })?;
        if let Some(text) = &self.text {
            write!(f, "={text}")?;
        }
        if self.every > 1 {
            write!(f, " 1/{}", self.every)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_parses_and_displays_alike() {
        for text in [
            "down",
            "slow=1s 500ms inserts",
            "answer=503",
            "answer=500:252 inserts",
            "after=200:241 questions 1/3",
            "stale-answer questions",
            "lost 1/2",
            "silent inserts",
            "deaf",
            "cut-answer=40",
            "cut-request inserts",
            "answer=403:497 inserts=person_updates 1/2",
            "with=readonly=1",
            "with=log_comment=a=b",
        ] {
            // A time of two words is displayed but not parsed: spaces separate the words of a rule.
            let typed = text.replace("1s 500ms", "1500ms");
            let rule: Rule = typed.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_rule_is_refused() {
        for text in [
            "",
            "up",
            "down=1",
            "slow",
            "slow=fast",
            "answer=99",
            "answer=500:many",
            "with=readonly",
            "lost 2/3",
            "lost 1/0",
            "lost updates",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_for_inserts_with_a_text_covers_no_others() {
        let rule: Rule = "lost inserts=-events-202611-".parse().unwrap();
        let token = |rest: &str| format!("query=INSERT&insert_deduplication_token=a-live-{rest}");
        for (query, is_insert, is_covered) in [
            (token("events-202611-1"), true, true),
            (token("events-202610-1"), true, false),
            (token("rejected_events-202611-1"), true, false),
            (token("events-202611-1"), false, false),
        ] {
            assert_eq!(rule.covers(&query, is_insert), is_covered, "{query}");
        }
    }

    #[test]
    fn an_exception_has_clickhouses_text_unless_the_status_is_a_success() {
        let text = |given: &str| given.parse::<CannedResponse>().unwrap().text();
        assert_eq!(
            text("500:252"),
            "Code: 252. DB::Exception: injected. (TOO_MANY_PARTS)\n"
        );
        assert_eq!(text("200:241"), "");
        assert_eq!(text("503"), "");
    }
}
