//! HTML pages of results.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::series::{Point, PointLatency};
use millrace_load::{Plan, Summary, html, run};

/// A real summary, but with a series of a minute.
fn summary() -> Summary {
    let server = Server::start(Work::Drain);
    let mut plan = Plan::new(&server.url, "key").with_requests(200);
    plan.batch_events = 2;
    plan.server_pid = Some(std::process::id());
    let mut summary = run(&plan).unwrap();
    let point = |second: u32| Point {
        at_seconds: f64::from(second),
        seconds: 1.0,
        acknowledged_requests: 100,
        acknowledged_events: 200,
        failed_requests: 0,
        latency: (second != 30).then_some(PointLatency {
            p50_us: 900.0,
            p90_us: 1000.0,
            p99_us: 5000.0,
            p999_us: 70_000.0,
            max_us: 80_000.0,
        }),
    };
    summary.series.points = (0..60).map(point).collect();
    summary
}

/// Headings of a page's plots.
fn plots(page: &str) -> Vec<&str> {
    let titles = page.split("<h3>").skip(1);
    titles
        .filter_map(|rest| rest.split("</h3>").next())
        .collect()
}

#[test]
fn a_page_has_plots_figures_plan_and_command_line() {
    let mut summary = summary();
    summary.command = "millrace-load --key … --url http://h".to_owned();
    let page = html::run_page(&summary).unwrap();
    assert_eq!(
        plots(&page)[..3],
        ["Throughput", "Latency", "Latency by percentile"]
    );
    for text in [
        &*summary.run_id,
        &summary.started_at,
        "<span>--url</span> <span>http://h</span>",
        "50 ms",
        "p99.9",
        "400 events in 200 requests",
        "Time is in seconds",
    ] {
        assert!(page.contains(text), "{text} is not in the page");
    }
}

#[test]
fn a_page_loads_nothing_and_escapes_text() {
    let mut summary = summary();
    summary.first_failure = Some("<script>alert(1)</script>".to_owned());
    let pages = [
        html::run_page(&summary).unwrap(),
        html::compare_page(&summary, &summary).unwrap(),
    ];
    for page in pages {
        for foreign in ["<script", "<link", "src=", "url(", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}

#[test]
fn failures_have_a_plot_where_there_are_some() {
    let mut summary = summary();
    let page = html::run_page(&summary).unwrap();
    assert!(!plots(&page).contains(&"Failures"));
    summary.series.points[7].failed_requests = 3;
    let page = html::run_page(&summary).unwrap();
    assert!(plots(&page).contains(&"Failures"));
}

#[test]
fn two_runs_share_the_plots_of_their_comparison() {
    let a = summary();
    let mut b = a.clone();
    b.plan.batch_events = 3;
    let page = html::compare_page(&a, &b).unwrap();
    for text in [
        "A p50",
        "B p50",
        "A p99",
        "B p99",
        "differ in size: 2 × 998 B a request and 3 × 998 B a request",
    ] {
        assert!(page.contains(text), "{text} is not in the page");
    }
    assert!(!page.contains("before results had a series"));
    b.series.points.clear();
    b.latency_distribution.clear();
    let page = html::compare_page(&a, &b).unwrap();
    assert!(page.contains("before results had a series"));
}

#[test]
fn a_run_without_responses_has_a_page_that_says_so() {
    let mut summary = summary();
    summary.series.points.clear();
    summary.latency_distribution.clear();
    summary.resources.clear();
    let page = html::run_page(&summary).unwrap();
    assert_eq!(plots(&page), Vec::<&str>::new());
    assert!(page.contains("nothing to plot"));
}

#[test]
fn colours_of_plots_are_those_that_the_style_sheet_replaces() {
    let page = html::run_page(&summary()).unwrap();
    let (style, plots) = page.split_once("</style>").unwrap();
    for attribute in ["stroke", "fill"] {
        let start = format!("{attribute}=\"#");
        for rest in plots.split(&*start).skip(1) {
            let selector = format!("[{start}{}\"]", &rest[..6]);
            let is_label = attribute == "fill" && &rest[..6] == "5B6670";
            assert!(style.contains(&selector) || is_label, "{selector}");
        }
    }
}
