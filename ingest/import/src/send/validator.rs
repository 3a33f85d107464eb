//! Validates events by the server's own rules: for the dry run, and for requests that the server
//! refuses as a whole.

use super::outcome::Refusal;
use crate::request::Request;
use millrace_parse::{
    KeyLookup, Limits, ParseContext, ParseError, Parsed, Parser, Project, Protocol,
    REPORT_ENTRIES_MAX,
};
use millrace_rows::{Clock, Micros, ProjectId, SystemClock};
use uuid::Uuid;

/// Validates events as the server does.
#[derive(Debug)]
pub struct Validator {
    parser: Parser,
    now: Micros,
}

impl Default for Validator {
    fn default() -> Self {
        Self {
            parser: Parser::default(),
            now: SystemClock.now(),
        }
    }
}

impl Validator {
    /// Lists the events of a request that the server would refuse.
    pub fn refused(&mut self, request: &Request) -> Vec<Refusal> {
        let mut refused = Vec::new();
        let mut from = 0;
        while from < request.events.len() {
            // As many as a report lists.
            let until = from + REPORT_ENTRIES_MAX;
            let part = request.part(|index| (from..until).contains(&index));
            match self.parse(&part) {
                Ok(parsed) => refused.extend(refusals(&parsed, from)),
                Err(_) => refused.extend(self.one_by_one(&part, from)),
            }
            from = until;
        }
        refused
    }

    fn one_by_one(&mut self, request: &Request, from: usize) -> Vec<Refusal> {
        let mut refused = Vec::new();
        for index in 0..request.events.len() {
            let one = request.part(|other| other == index);
            match self.parse(&one) {
                Ok(parsed) => refused.extend(refusals(&parsed, from + index)),
                Err(error) => refused.push(Refusal {
                    index: from + index,
                    ..of_body(error)
                }),
            }
        }
        refused
    }

    fn parse(&mut self, request: &Request) -> Result<Parsed, ParseError> {
        let context = ParseContext {
            received_at: self.now,
            created_at: self.now,
            request_id: Uuid::nil(),
            engage: false,
            sent_at_query: None,
            historical_query: false,
            strict: false,
            dry_run: true,
            client_ip: None,
            protocol: Protocol::V0,
            limits: Limits::default(),
        };
        let project = Project {
            id: ProjectId(0),
            anonymize_ips: true,
            ingested_event: true,
        };
        self.parser
            .parse(&request.body, &context, &mut |_| KeyLookup::Found(project))
    }
}

fn refusals(parsed: &Parsed, from: usize) -> impl Iterator<Item = Refusal> {
    parsed.report.rejected.iter().map(move |it| Refusal {
        index: from + it.index as usize,
        code: it.code.to_owned(),
        detail: it.detail.to_string(),
        attr: Some(it.attr.clone()),
    })
}

/// Refusal of a body with one event.
fn of_body(error: ParseError) -> Refusal {
    let (code, detail) = match error {
        ParseError::Refused(error) => (error.code, error.detail.into_owned()),
        ParseError::NeedsKey(_) => ("invalid_json", String::new()),
    };
    let detail = match code {
        // The server's message names an offset in the body, which the user does not know.
        "invalid_json" => "The record is not valid JSON. Correct or omit it.".to_owned(),
        "invalid_utf8" => "The record is not UTF-8. Correct or omit it.".to_owned(),
        _ => detail,
    };
    Refusal {
        index: 0,
        code: code.to_owned(),
        detail,
        attr: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{BodyPrefix, NewEvent, RequestBuilder};
    use millrace_sources::Position;

    fn request(events: &[&str]) -> Request {
        let mut request = RequestBuilder::new(&BodyPrefix::new("phc_x"));
        for json in events {
            request.push(NewEvent {
                json: json.as_bytes(),
                uuid: None,
                record: None,
                at: Position::default(),
                source: 0,
                counted: None,
            });
        }
        request.finish()
    }

    #[test]
    fn every_invalid_event_is_listed_whatever_its_number_and_reason() {
        let good = r#"{"event":"a","distinct_id":"b","timestamp":"2024-01-01"}"#;
        let nobody = r#"{"event":"a","timestamp":"2024-01-01"}"#;
        let broken = r#"{"event":"a","distinct_id":"b","properties":{"x":tru}}"#;
        let future = r#"{"event":"a","distinct_id":"b","timestamp":"2999-01-01"}"#;
        let mut events = vec![nobody; 250];
        events.extend([good, broken, future, good]);
        let refused = Validator::default().refused(&request(&events));
        assert_eq!(refused.len(), 252);
        assert!(
            refused[..250]
                .iter()
                .enumerate()
                .all(|(index, it)| it.index == index && it.code == "missing_distinct_id")
        );
        let rest: Vec<_> = refused[250..]
            .iter()
            .map(|it| (it.index, it.code.as_str()))
            .collect();
        assert_eq!(rest, [(251, "invalid_json"), (252, "timestamp_in_future")]);
    }
}
