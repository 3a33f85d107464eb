//! Compares two runs.

use crate::digits::grouped;
use crate::plan::Plan;
use crate::summary::Summary;
use comfy_table::{CellAlignment, Table, presets};

/// A figure of both runs.
struct Figure {
    name: &'static str,
    before: f64,
    after: f64,
    unit: FigureUnit,
}

#[derive(Clone, Copy)]
enum FigureUnit {
    PerSecond,
    Micros,
    Seconds,
    Mebibytes,
    Count,
}

/// A figure of both runs, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the figure.
    pub name: &'static str,
    /// Value of the reference run.
    pub a: String,
    /// Value of the compared run.
    pub b: String,
    /// Ratio of B to A.
    pub ratio: String,
}

/// Table of both runs' figures with their ratio; warns if the plans differ.
#[must_use]
pub fn compare(before: &Summary, after: &Summary) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "A", "B", "B / A"]);
    for row in rows(before, after) {
        table.add_row([row.name.to_owned(), row.a, row.b, row.ratio]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    for difference in differences(before, after) {
        text.push_str("\nNote: the runs differ in ");
        text.push_str(&difference);
    }
    text
}

/// Figures that both runs have.
#[must_use]
pub fn rows(before: &Summary, after: &Summary) -> Vec<Row> {
    let row = |figure: Figure| Row {
        name: figure.name,
        a: figure.unit.show(figure.before),
        b: figure.unit.show(figure.after),
        ratio: ratio(figure.before, figure.after),
    };
    figures(before, after).into_iter().map(row).collect()
}

fn figures(before: &Summary, after: &Summary) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name, unit, get: &dyn Fn(&Summary) -> Option<f64>| {
        if let (Some(before), Some(after)) = (get(before), get(after)) {
            figures.push(Figure {
                name,
                before,
                after,
                unit,
            });
        }
    };
    add("events/s", FigureUnit::PerSecond, &|s| {
        Some(s.events_per_second)
    });
    add("requests/s", FigureUnit::PerSecond, &|s| {
        Some(s.requests_per_second)
    });
    add(
        "events per server core-second",
        FigureUnit::PerSecond,
        &|s| s.server.map(|load| load.events_per_core_second),
    );
    add("latency p50", FigureUnit::Micros, &|s| {
        Some(s.latency.p50_us)
    });
    add("latency p90", FigureUnit::Micros, &|s| {
        Some(s.latency.p90_us)
    });
    add("latency p99", FigureUnit::Micros, &|s| {
        Some(s.latency.p99_us)
    });
    add("latency p99.9", FigureUnit::Micros, &|s| {
        Some(s.latency.p999_us)
    });
    add("latency max", FigureUnit::Micros, &|s| {
        Some(s.latency.max_us)
    });
    add("failed requests", FigureUnit::Count, &|s| {
        Some(s.window.failed_requests as f64)
    });
    if [before, after].iter().any(|s| s.window.unsent_requests > 0) {
        add("requests due and not sent", FigureUnit::Count, &|s| {
            Some(s.window.unsent_requests as f64)
        });
    }
    add("server CPU", FigureUnit::Seconds, &|s| {
        s.server.map(|load| load.cpu_seconds)
    });
    add("server memory, most", FigureUnit::Mebibytes, &|s| {
        s.server.map(|load| load.rss_bytes_max as f64)
    });
    add("generator CPU", FigureUnit::Seconds, &|s| {
        Some(s.generator.cpu_seconds)
    });
    figures
}

impl FigureUnit {
    fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond | Self::Count => grouped(value),
            Self::Micros => format!("{:.3} ms", value / 1000.0),
            Self::Seconds => format!("{value:.2} s"),
            Self::Mebibytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
        }
    }
}

fn ratio(before: f64, after: f64) -> String {
    if before > 0.0 {
        format!("{:.3}", after / before)
    } else if after > 0.0 {
        "∞".to_owned()
    } else {
        "1.000".to_owned()
    }
}

fn is_tls(plan: &Plan) -> String {
    let tls = plan.url.starts_with("https:");
    (if tls { "yes" } else { "no" }).to_owned()
}

/// Differences of the plans, which make a comparison unfair.
#[must_use]
pub fn differences(before: &Summary, after: &Summary) -> Vec<String> {
    let (a, b) = (&before.plan, &after.plan);
    let pairs = [
        ("mode", a.mode.to_string(), b.mode.to_string()),
        (
            "connections",
            a.connections.to_string(),
            b.connections.to_string(),
        ),
        ("form", format!("{:?}", a.api), format!("{:?}", b.api)),
        ("size", a.sizes_text(), b.sizes_text()),
        (
            "event shape",
            format!("{:?}", a.event_shape),
            format!("{:?}", b.event_shape),
        ),
        (
            "compression",
            format!("{:?}", a.compression),
            format!("{:?}", b.compression),
        ),
        (
            "historical share",
            a.historical_share.to_string(),
            b.historical_share.to_string(),
        ),
        ("TLS", is_tls(a), is_tls(b)),
        (
            "projects",
            a.keys.projects().to_string(),
            b.keys.projects().to_string(),
        ),
        ("threads", a.threads.to_string(), b.threads.to_string()),
    ];
    pairs
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("{name}: {a} and {b}"))
        .collect()
}
