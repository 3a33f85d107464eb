//! What can be done to a request, in words that people type.

use anyhow::{Context, Error, Result, bail};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is done to a request on its way to ClickHouse, or to the answer on its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens, and every connection there was is cut.
    Down,
    /// The request is carried out; its answer comes so much later.
    Slow(Duration),
    /// The request is read and answered with this; ClickHouse never sees it.
    Answer(Given),
    /// The request is carried out and answered with this all the same.
    After(Given),
    /// The request is carried out, and the connection cut in place of the answer.
    Lost,
    /// The request is carried out; no answer comes while the fault lasts, then the connection is
    /// cut.
    Silent,
    /// The request is read, never carried out and never answered: when the fault ends, the
    /// connection is cut.
    Deaf,
    /// The request is carried out, and the connection cut after so many bytes of the answer, its
    /// head included.
    CutAnswer(usize),
    /// About half of the request reaches ClickHouse; then both connections are cut.
    CutRequest,
    /// The request is carried out with a setting more: what ClickHouse makes of that is real.
    With {
        /// The setting's name.
        name: String,
        /// Its value.
        value: String,
    },
}

/// An answer that ClickHouse did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The HTTP status.
    pub status: u16,
    /// ClickHouse's exception code, in the header, and in the body unless the status is a success.
    pub code: Option<u32>,
}

/// Which requests a fault is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is done.
    pub fault: Fault,
    /// To which kind of request.
    pub target: Target,
    /// To the first of so many such requests; 1 is all of them. Has no meaning for
    /// [`Fault::Down`], which is of connections.
    pub every: u64,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Whatever comes.
    All,
    /// Rows to store.
    Inserts,
    /// Everything else: questions and schema changes.
    Questions,
}

impl Target {
    /// Whether a request is of this kind.
    #[must_use]
    pub const fn covers(self, is_insert: bool) -> bool {
        match self {
            Self::All => true,
            Self::Inserts => is_insert,
            Self::Questions => !is_insert,
        }
    }
}

impl Given {
    /// What ClickHouse writes for an exception; empty when there is none, or when the status
    /// says that all went well.
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
        516 => "AUTHENTICATION_FAILED",
        999 => "KEEPER_EXCEPTION",
        _ => "INJECTED",
    }
}

// === From and to words ===

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
            _ => bail!("{text:?} is no fault; see `proxy --help`"),
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
            Self::Lost => f.write_str("lost"),
            Self::Silent => f.write_str("silent"),
            Self::Deaf => f.write_str("deaf"),
            Self::CutAnswer(bytes) => write!(f, "cut-answer={bytes}"),
            Self::CutRequest => f.write_str("cut-request"),
            Self::With { name, value } => write!(f, "with={name}={value}"),
        }
    }
}

impl FromStr for Given {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (status, code) = match text.split_once(':') {
            Some((status, code)) => (status, Some(code.parse().context("exception code")?)),
            None => (text, None),
        };
        let status: u16 = status.parse().context("status")?;
        if !(200..600).contains(&status) {
            bail!("{status} is no status of an answer");
        }
        Ok(Self { status, code })
    }
}

impl fmt::Display for Given {
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
            target: Target::All,
            every: 1,
        };
        for word in words {
            match word {
                "inserts" => rule.target = Target::Inserts,
                "questions" => rule.target = Target::Questions,
                _ => rule.every = every(word)?,
            }
        }
        Ok(rule)
    }
}

/// The N of `1/N`.
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
        f.write_str(match self.target {
            Target::All => "",
            Target::Inserts => " inserts",
            Target::Questions => " questions",
        })?;
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
    fn a_rule_reads_as_it_is_written() {
        for text in [
            "down",
            "slow=1s 500ms inserts",
            "answer=503",
            "answer=500:252 inserts",
            "after=200:241 questions 1/3",
            "lost 1/2",
            "silent inserts",
            "deaf",
            "cut-answer=40",
            "cut-request inserts",
            "with=readonly=1",
            "with=log_comment=a=b",
        ] {
            // A time of two words is written, but not read: a rule's words are apart.
            let typed = text.replace("1s 500ms", "1500ms");
            let rule: Rule = typed.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
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
    fn an_exception_is_worded_as_clickhouse_does_but_for_a_success() {
        let text = |given: &str| given.parse::<Given>().unwrap().text();
        assert_eq!(
            text("500:252"),
            "Code: 252. DB::Exception: injected. (TOO_MANY_PARTS)\n"
        );
        assert_eq!(text("200:241"), "");
        assert_eq!(text("503"), "");
    }
}
