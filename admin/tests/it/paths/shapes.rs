//! Checks of a response against the fields in the table.

use super::table::{ResponseShape, Row, Table};
use crate::fixture::TestResponse;
use millrace_catalog::UtcTime;
use serde_json::Value;

const PAGE: [&str; 4] = ["count", "next", "previous", "results"];

impl Table {
    /// Checks status, headers and body of a successful response.
    pub fn check(&self, row: &Row, answer: &TestResponse) {
        let case = format!("{} {}: {answer:?}", row.method, row.path);
        assert_eq!(answer.status, row.status, "{case}");
        let content_type = match row.answer.as_str() {
            "nothing" => "",
            "html" => "text/html; charset=utf-8",
            "events" => "text/event-stream",
            "csv" => "text/csv; charset=utf-8; header=present",
            _ => "application/json",
        };
        assert_eq!(answer.header("content-type"), content_type, "{case}");
        assert!(!answer.header("x-request-id").is_empty(), "{case}");
        match row.answer.split_once(" of ") {
            Some(("page", shape)) => self.check_page(row, shape, &answer.body, &case),
            Some(("list", shape)) => self.check_all(shape, &answer.body, &case),
            Some(_) => panic!("{case}: what is {}?", row.answer),
            None if ["nothing", "html", "csv", "json", "events"].contains(&row.answer.as_str()) => {
            }
            None => {
                let mut fields = self.shape(&row.answer).clone();
                fields.extend(row.plus.clone());
                self.check_fields(&fields, &answer.body, &case);
            }
        }
        let is_untagged = row.answer.starts_with("page") || row.answer == "events";
        let is_tagged = row.method == "GET" && !is_untagged;
        assert!(
            !is_tagged || answer.header("etag").starts_with('"'),
            "{case}"
        );
    }

    fn check_page(&self, row: &Row, shape: &str, page: &Value, case: &str) {
        let keys: Vec<_> = page.as_object().unwrap().keys().collect();
        assert_eq!(keys, PAGE, "{case}");
        let rows = page["results"].as_array().unwrap().len();
        assert_eq!(page["count"], rows, "{case}");
        assert_eq!(rows == 0, row.empty, "{case}");
        assert!(
            page["next"].is_null() && page["previous"].is_null(),
            "{case}"
        );
        self.check_all(shape, &page["results"], case);
    }

    fn check_all(&self, shape: &str, list: &Value, case: &str) {
        for item in list.as_array().expect(case) {
            self.check_one(shape, item, case);
        }
    }

    fn shape(&self, name: &str) -> &ResponseShape {
        self.shapes.get(name).expect(name)
    }

    fn check_one(&self, shape: &str, value: &Value, case: &str) {
        self.check_fields(self.shape(shape), value, case);
    }

    /// Checks that a value has exactly these fields, each of its kind: internal fields must not
    /// leak.
    fn check_fields(&self, fields: &ResponseShape, value: &Value, case: &str) {
        for name in value.as_object().expect(case).keys() {
            assert!(fields.contains_key(name), "{name} is extra: {case}");
        }
        for (name, kind) in fields {
            let field = value.get(name);
            let field = field.unwrap_or_else(|| panic!("{name} is missing: {case}"));
            let (kind, nullable) = match kind.strip_suffix('?') {
                Some(kind) => (kind, true),
                None => (kind.as_str(), false),
            };
            let fits = nullable && field.is_null() || self.is_kind(kind, field, case);
            assert!(fits, "{name} is no {kind}: {field}: {case}");
        }
    }

    fn is_kind(&self, kind: &str, value: &Value, case: &str) -> bool {
        let text = value.as_str();
        match kind {
            "any" => true,
            "array" => value.is_array(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64(),
            "object" => value.is_object(),
            "string" => text.is_some(),
            "uuid" => text.is_some_and(|text| uuid::Uuid::parse_str(text).is_ok()),
            "datetime" => text
                .is_some_and(|text| text.ends_with('Z') && UtcTime::from_rfc3339(text).is_some()),
            kind => {
                match kind.strip_prefix("list of ") {
                    Some(shape) => self.check_all(shape, value, case),
                    None => self.check_one(kind, value, case),
                }
                true
            }
        }
    }
}
