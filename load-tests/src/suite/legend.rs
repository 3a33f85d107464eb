//! Legends: the meaning of each column of the results page.

/// Columns with their meanings.
const LEGENDS: [(&str, &str); 56] = [
    (
        "Peer",
        "service that takes events over HTTP; all take the same events",
    ),
    ("Server", "program that is measured; the first is ours"),
    ("events/s", "acknowledged events per second"),
    (
        "events/s, median",
        "acknowledged events per second, in the middle of the rounds",
    ),
    (
        "lowest to highest",
        "the rates of the slowest and of the fastest round; of five rounds, the true \
         median is between them with a probability of 94 %",
    ),
    ("best", "rate of the fastest round"),
    ("requests/s, median", "requests of that rate"),
    ("requests/s", "acknowledged requests per second"),
    (
        "events per CPU s",
        "events per second of CPU time of the server's process, in the middle of the \
         rounds",
    ),
    ("cores", "CPU seconds of the server per second"),
    (
        "ours ÷ this, median of rounds",
        "our rate by this rate in the same round, in the middle of the rounds",
    ),
    ("of the best", "our fastest round by the fastest of this"),
    (
        "per CPU s",
        "our events per CPU second by those of this, in the middle of the rounds",
    ),
    (
        "Millrace ÷ this, median of rounds",
        "rate of Millrace by this rate in the same round, in the middle of the rounds",
    ),
    (
        "queryable/s",
        "rows that can be queried per second, from the first request until the last row \
         can be; median, and lowest to highest",
    ),
    (
        "events/s of a CPU, closed loop",
        "acknowledged events per second, with the service on one CPU; median, and lowest \
         to highest",
    ),
    (
        "CPU µs an event",
        "CPU time of the server by the acknowledged events",
    ),
    (
        "CPU µs until queryable",
        "CPU time of all processes, ClickHouse included, by the acknowledged events; \
         median, and lowest to highest",
    ),
    (
        "of it ClickHouse",
        "part of that CPU time that ClickHouse takes",
    ),
    (
        "p99 ms at half the rate",
        "time within which 99 of 100 requests are answered, from when they were due, at \
         half of the rate of the first column; median, and lowest to highest",
    ),
    (
        "requests refused",
        "requests without acknowledgement, all rounds together",
    ),
    (
        "acknowledges",
        "moment at which a request is answered with success",
    ),
    (
        "kills",
        "number of times that all processes were killed by SIGKILL while events arrived, \
         and started again",
    ),
    (
        "acknowledged",
        "events that had been acknowledged at the kills",
    ),
    (
        "lost",
        "of these, events that are not in ClickHouse afterwards",
    ),
    (
        "stored twice",
        "rows of events that were sent once and stored more often",
    ),
    ("versions", "versions of the programs"),
    (
        "log MB/s",
        "bytes that the log grows by, in millions per second",
    ),
    (
        "bytes a sync",
        "bytes of the log that one fdatasync makes durable",
    ),
    (
        "Millrace on disk ÷ this",
        "rate with the log on disk by this rate, in the middle of the rounds; for the \
         bare loop in bytes",
    ),
    (
        "ms",
        "share of the requests, in the rows, that took no longer than the milliseconds \
         beside it",
    ),
    ("Millrace, memory", "server with its log in memory"),
    ("Millrace, disk", "server with its log on disk"),
    (
        "bare append + fdatasync, disk",
        "loop that appends as many bytes as a sync of the server's and syncs them",
    ),
    (
        "disk ÷ bare",
        "latency of the server on disk by that of the bare loop",
    ),
    (
        "shipping",
        "CPU time of the threads that send rows to ClickHouse",
    ),
    ("requests", "CPU time of the threads that serve requests"),
    (
        "log",
        "CPU time of the threads that write and sync the log; in other tables, where the \
         log is",
    ),
    ("the rest", "CPU time of all other threads"),
    ("events", "number of events"),
    ("rows an insert", "rows that one insert into ClickHouse has"),
    (
        "rows/s that can be queried",
        "rows per second, from the first request until they can be queried, in the middle \
         of the rounds",
    ),
    ("Export", "rows exported by Millrace"),
    (
        "SELECT alone",
        "the same query, its answer read and dropped",
    ),
    ("Export ÷ SELECT", "rate of the export by that of the query"),
    ("value", "value in the unit that the row names"),
    (
        "Millrace, one worker, median of rounds",
        "what is measured, and its unit",
    ),
    ("Millrace, one worker", "what is measured, and its unit"),
    ("MiB", "resident memory"),
    (
        "A small project",
        "what happens beside the project that is measured",
    ),
    (
        "p50 ms",
        "time within which half of the small project's requests are answered",
    ),
    (
        "p99 ms",
        "time within which 99 of 100 of its requests are answered",
    ),
    (
        "p99 ÷ alone, median of rounds",
        "p99 by that of the project alone in the same round",
    ),
    (
        "failed",
        "requests of the small project without acknowledgement",
    ),
    (
        "the other's events/s",
        "acknowledged events per second of the other project",
    ),
    ("MB/s", "bytes of bodies in millions per second"),
];

/// Columns of the tables of properties, by their ends.
const PROPERTIES: [(&str, &str); 9] = [
    (
        "Query",
        "question of an analyst; benches/columns/queries.py has the SQL",
    ),
    ("Table", "way in which the properties of events are stored"),
    (", ms", "time of the query; median, and lowest to highest"),
    (
        ", MB read",
        "uncompressed bytes that the query reads, in millions",
    ),
    (
        " ÷ columns",
        "time of the query by that over property columns",
    ),
    (
        "insert, CPU µs an event",
        "CPU time of the engine to insert an event",
    ),
    (
        "insert ÷ text",
        "that CPU time by that of properties as text",
    ),
    (
        "disk, bytes an event",
        "compressed bytes of an event, all of its columns together",
    ),
    ("disk ÷ text", "these bytes by those of properties as text"),
];

/// Columns that count what grows in a table.
const GROWING: [(&str, &str); 4] = [
    ("connections", "connections of the load"),
    ("projects", "projects whose keys the requests take in turn"),
    ("bytes of an event", "size of an event's JSON"),
    ("events of a request", "events in each request"),
];

/// Meaning of a column; none if its heading is empty or unknown.
#[must_use]
pub fn of(column: &str) -> Option<String> {
    let mut all = LEGENDS.iter().chain(&GROWING);
    if let Some((_, meaning)) = all.find(|(name, _)| *name == column) {
        return Some((*meaning).to_owned());
    }
    match column {
        "CPU ns a byte" => Some("CPU time of the server by the bytes of the bodies".to_owned()),
        "million events/s" => Some("bench, by the way that it takes".to_owned()),
        _ => workload(column).or_else(|| {
            let of_properties = PROPERTIES.iter().find(|(end, _)| column.ends_with(*end));
            of_properties.map(|(_, meaning)| (*meaning).to_owned())
        }),
    }
}

/// Meaning of a workload of the benches, such as `998B_x250` or `998B_x10_escapes`.
fn workload(column: &str) -> Option<String> {
    let (bytes, rest) = column.split_once("B_x")?;
    let (events, kind) = rest.split_once('_').unwrap_or((rest, ""));
    let (bytes, events): (u32, u32) = (bytes.parse().ok()?, events.parse().ok()?);
    let kind = match kind {
        "" => String::new(),
        kind => format!(", with {kind}"),
    };
    let noun = if events == 1 { "event" } else { "events" };
    Some(format!(
        "body of {events} {noun} of {bytes} bytes{kind}; millions of events per second"
    ))
}

/// Legends of the columns of a table, in their order; columns without one are left out.
#[must_use]
pub fn legends(columns: &[String]) -> Vec<(String, String)> {
    let known = columns
        .iter()
        .map(|column| Some((column.clone(), of(column)?)));
    known.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::outcome::Report;
    use std::path::Path;

    #[test]
    fn every_column_of_the_committed_results_has_a_legend() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/report/suite.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let columns = report.outcomes.iter().flat_map(|it| &it.columns);
        let without: Vec<_> = columns
            .filter(|column| !column.is_empty() && of(column).is_none())
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn columns_of_many_names_are_explained_by_a_part_of_them() {
        let table = [
            (
                "998B_x1",
                Some("body of 1 event of 998 bytes; millions of events per second"),
            ),
            (
                "998B_x10_escapes",
                Some("body of 10 events of 998 bytes, with escapes; millions of events per second"),
            ),
            (
                "String, JSONExtract, ms",
                Some("time of the query; median, and lowest to highest"),
            ),
            ("B_x", None),
            ("speed", None),
        ];
        for (column, meaning) in table {
            assert_eq!(of(column).as_deref(), meaning, "{column}");
        }
    }
}
