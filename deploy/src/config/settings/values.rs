//! Parsers of single values, so that a mistake is reported with the setting's name wherever it was
//! written, and nothing is misread.

use bytesize::ByteSize;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Crates that this program is built of, by the names that their log lines have.
const CRATES: &str = include_str!(concat!(env!("OUT_DIR"), "/crates.txt"));
/// Crates of earlier versions, which settings may still name.
const FORMER_CRATES: [&str; 1] = ["sea_orm_migration"];

/// Parses a number of bytes.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    text.parse()
        .map_err(|_| "give a size such as 2GiB or 500MiB".to_owned())
}

/// Parses the size of a log file, below which it would be rotated all the time.
pub(super) fn log_file_size(text: &str) -> Result<ByteSize, String> {
    let least = ByteSize::kib(64);
    match size(text)? {
        size if size < least => Err("give at least 64KiB, such as 100MiB".to_owned()),
        size => Ok(size),
    }
}

/// Parses a share from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text
        .parse()
        .ok()
        .filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "give a number from 0 to 1, such as 0.01 for one in a hundred".to_owned())
}

/// Checks a filter of log lines: levels, and parts of the program with levels of their own.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let directives = text.split(',').map(str::trim);
    let directives: Vec<_> = directives.filter(|it| !it.is_empty()).collect();
    let wrong = |what: String| {
        format!(
            "{what}; give off, error, warn, info, debug or trace, and behind it parts of the program that \
             have another level, such as info,millrace_pipeline=debug"
        )
    };
    if directives.is_empty() {
        return Err(wrong("it names no level".to_owned()));
    }
    for directive in &directives {
        check_directive(directive).map_err(wrong)?;
    }
    let filter = directives.join(",");
    let read = EnvFilter::try_new(&filter).map(drop);
    read.map_err(|error| wrong(error.to_string()))?;
    Ok(filter)
}

/// Checks `level`, `target`, `target=level`, and both with a `[span{field=value}]` behind the
/// target.
fn check_directive(directive: &str) -> Result<(), String> {
    let (target, level) = match directive.split_once('[') {
        Some((target, span)) => {
            let (_, level) = span.rsplit_once(']').unwrap_or_default();
            (target, level.strip_prefix('='))
        }
        None => match directive.split_once('=') {
            Some((target, level)) => (target, Some(level)),
            None if is_level(directive) => return Ok(()),
            None => (directive, None),
        },
    };
    let name = target.split("::").next().unwrap_or_default();
    let is_crate = CRATES.lines().any(|it| it == name) || FORMER_CRATES.contains(&name);
    if !target.is_empty() && !is_crate {
        return Err(match level {
            None => format!("{target:?} is not a level, and not a part of this program"),
            Some(_) => format!("{target:?} is not part of this program"),
        });
    }
    match level {
        Some(level) if !is_level(level) => Err(format!("{level:?} is not a level")),
        _ => Ok(()),
    }
}

fn is_level(text: &str) -> bool {
    !text.is_empty() && text.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_accepts_only_known_levels_and_crates() {
        let table = [
            ("info", None),
            ("WARN", None),
            ("off", None),
            ("info,sea_orm_migration=warn", None),
            ("info, millrace_pipeline=debug", None),
            ("millrace_ingest::keys=trace", None),
            ("hyper", None),
            ("clickhouse=off,error", None),
            ("warn,millrace_admin[request{method=GET}]=debug", None),
            ("[request]=debug", None),
            ("chatty", Some("\"chatty\" is not a level")),
            ("inf o", Some("\"inf o\" is not a level")),
            ("", Some("it names no level")),
            (" , ", Some("it names no level")),
            (
                "info,millrace_pipelin=debug",
                Some("\"millrace_pipelin\" is not part"),
            ),
            (
                "info,millrace_pipeline=chatty",
                Some("\"chatty\" is not a level"),
            ),
            ("info,millrace_pipeline=", Some("\"\" is not a level")),
            ("info;debug", Some("\"info;debug\" is not a level")),
            ("info,nobody[request]=debug", Some("\"nobody\" is not part")),
        ];
        for (text, wrong) in table {
            match (log_filter(text), wrong) {
                (Ok(_), None) => {}
                (Err(error), Some(wrong)) => {
                    assert!(error.contains(wrong), "{text:?}: {error}");
                    assert!(error.contains("warn, info, debug or trace"), "{error}");
                }
                (read, _) => panic!("{text:?}: {read:?}"),
            }
        }
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("0.001", Some(0.001)),
            ("1", Some(1.0)),
            ("1.1", None),
            ("-0.1", None),
            ("NaN", None),
            ("1%", None),
        ] {
            assert_eq!(ratio(text).ok(), expected, "{text}");
        }
    }
}
