//! Names of buckets and files that object stores take, checked when an export is made and not by
//! its first run.
//!
//! Names that are stored already stay as they are: a store may have taken them under older rules.

use super::field_errors::FieldError;
use super::stored::{ChangedDestination, StoredDestination};
use millrace_catalog::entities::batch_exports::DestinationType;
use serde_json::{Map, Value};
use std::net::Ipv4Addr;
use url::Url;

/// Longest key of a file in all of them, in bytes.
const KEY_BYTES_MAX: usize = 1_024;
/// Bytes that follow a prefix: two instants, a number, the endings of format and compression.
const FILE_NAME_BYTES_MAX: usize = 100;
/// Placeholders of instants, whose values in a key are longer than they are in a prefix.
const INSTANTS: [&str; 2] = ["{data_interval_start}", "{data_interval_end}"];
const INSTANT_BYTES_MAX: usize = 27;

/// Rules for the names of a store's buckets.
struct BucketNames {
    field: &'static str,
    chars_max: usize,
    /// Characters beside lower-case letters and digits, and the words for them.
    others: (&'static [char], &'static str),
    /// Names that break the rules.
    known: &'static [&'static str],
}

const S3: BucketNames = BucketNames {
    field: "bucket_name",
    chars_max: 63,
    others: (&['-', '.'], "digits, dashes and dots"),
    known: &[],
};
const GCS: BucketNames = BucketNames {
    field: "bucket_name",
    chars_max: 222,
    others: (&['-', '_', '.'], "digits, dashes, underscores and dots"),
    known: &[],
};
const AZURE_BLOB: BucketNames = BucketNames {
    field: "container_name",
    chars_max: 63,
    others: (&['-'], "digits and dashes"),
    known: &["$root", "$web", "$logs"],
};

/// Checks names of a store that differ from those before; answers the field at fault.
pub(super) fn check(
    before: &StoredDestination,
    after: &ChangedDestination,
) -> Result<(), (&'static str, FieldError)> {
    let (old, new) = (&before.config, &after.stored.config);
    let differs = |field: &str| old.get(field) != new.get(field);
    let rules = match after.stored.kind {
        DestinationType::S3 => &S3,
        DestinationType::Gcs => &GCS,
        DestinationType::AzureBlob => &AZURE_BLOB,
        _ => return Ok(()),
    };
    // Other stores that speak the S3 protocol may have rules of their own.
    let is_elsewhere = !text(new, "endpoint_url").trim().is_empty();
    if !is_elsewhere && (differs(rules.field) || differs("endpoint_url")) {
        let checked = rules.check(text(new, rules.field));
        checked.map_err(|error| (rules.field, error))?;
    }
    if is_elsewhere && differs("endpoint_url") {
        endpoint(text(new, "endpoint_url")).map_err(|error| ("endpoint_url", error))?;
    }
    if differs("prefix") {
        prefix(text(new, "prefix")).map_err(|error| ("prefix", error))?;
    }
    Ok(())
}

fn text<'a>(config: &'a Map<String, Value>, field: &str) -> &'a str {
    config
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl BucketNames {
    fn check(&self, name: &str) -> Result<(), FieldError> {
        let (others, words) = self.others;
        let is_own = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_name = (3..=self.chars_max).contains(&name.chars().count())
            && name.chars().all(|c| is_own(c) || others.contains(&c))
            && name.starts_with(is_own)
            && name.ends_with(is_own)
            && !name.contains("..")
            && name.parse::<Ipv4Addr>().is_err();
        if is_name || self.known.contains(&name) {
            return Ok(());
        }
        Err(invalid(format!(
            "{name:?} is not a possible name: a name has 3 to {} lower-case letters, {words}, \
             begins and ends with a letter or a digit, and is not an address. Give the name of an \
             existing one.",
            self.chars_max
        )))
    }
}

/// Checks a URL that keys are appended to: a part after `?` or `#` would swallow them.
fn endpoint(text: &str) -> Result<(), FieldError> {
    let url = Url::parse(text).ok();
    match url.filter(|url| url.query().is_some() || url.fragment().is_some()) {
        None => Ok(()),
        Some(_) => Err(invalid(
            "Give the URL of the server alone, without what follows \"?\" or \"#\".".to_owned(),
        )),
    }
}

fn prefix(template: &str) -> Result<(), FieldError> {
    let longest = INSTANTS
        .iter()
        .map(|name| {
            let more = INSTANT_BYTES_MAX.saturating_sub(name.len());
            template.matches(name).count().saturating_mul(more)
        })
        .fold(template.len(), usize::saturating_add);
    let most = KEY_BYTES_MAX - FILE_NAME_BYTES_MAX;
    if longest <= most {
        return Ok(());
    }
    Err(invalid(format!(
        "A file's key may have {KEY_BYTES_MAX} bytes, {FILE_NAME_BYTES_MAX} of which are for its name. Give a prefix \
         of {most} bytes at most; with what is in braces replaced, this one may have {longest}."
    )))
}

fn invalid(detail: String) -> FieldError {
    ("invalid_input", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_store_has_are_refused() {
        let long = |count: usize| "a".repeat(count);
        let table = [
            (&S3, "my-bucket.1", true),
            (&S3, "123", true),
            (&S3, &long(63), true),
            (&S3, &long(64), false),
            (&S3, "ab", false),
            (&S3, "My-bucket", false),
            (&S3, "my_bucket", false),
            (&S3, "my bucket", false),
            (&S3, "-bucket", false),
            (&S3, "bucket.", false),
            (&S3, "my..bucket", false),
            (&S3, "192.168.5.4", false),
            (&S3, "my/bucket", false),
            (&S3, "grö", false),
            (&GCS, "my_bucket.example.com", true),
            (&GCS, "My-bucket", false),
            (&AZURE_BLOB, "my-container", true),
            (&AZURE_BLOB, "$web", true),
            (&AZURE_BLOB, "my.container", false),
            (&AZURE_BLOB, "$other", false),
        ];
        for (rules, name, is_one) in table {
            assert_eq!(rules.check(name).is_ok(), is_one, "{name}");
        }
    }

    #[test]
    fn a_prefix_that_leaves_no_space_for_file_names_is_refused() {
        let table = [
            (String::new(), true),
            ("a".repeat(924), true),
            ("a".repeat(925), false),
            ("ä".repeat(462), true),
            ("ä".repeat(463), false),
            (format!("{}{{data_interval_end}}", "a".repeat(897)), true),
            (format!("{}{{data_interval_end}}", "a".repeat(898)), false),
            (format!("{}{{year}}", "a".repeat(918)), true),
        ];
        for (template, is_taken) in table {
            assert_eq!(prefix(&template).is_ok(), is_taken, "{}", template.len());
        }
    }

    #[test]
    fn an_endpoint_with_a_query_or_a_fragment_is_refused() {
        for (url, is_taken) in [
            ("https://s3.example.com", true),
            ("https://s3.example.com:9000/base/", true),
            ("https://s3.example.com/?a=b", false),
            ("https://s3.example.com?", false),
            ("https://s3.example.com/#a", false),
        ] {
            assert_eq!(endpoint(url).is_ok(), is_taken, "{url}");
        }
    }
}
