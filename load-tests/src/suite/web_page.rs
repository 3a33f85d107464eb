//! Results page for the web: one file without scripts, with its pictures inside, that follows the
//! reader's light or dark scheme.

use super::legend::legends;
use super::opening::Opening;
use super::outcome::Outcome;
use super::page::{HISTORY, METHOD, Page, SHORT, origin};
use anyhow::{Context, Result};
use askama::Template;

#[derive(Template)]
#[template(path = "results.html")]
struct ResultsPage<'a> {
    warning: &'static str,
    opening: Option<&'a Opening>,
    facts: Vec<(&'static str, String)>,
    method: String,
    sections: Vec<Section<'a>>,
    history: &'a str,
}

/// Case with what belongs to it.
struct Section<'a> {
    outcome: &'a Outcome,
    legends: Vec<(String, String)>,
    /// Empty if the result is of the page's run.
    origin: String,
    /// Empty without a picture.
    picture: &'a str,
}

/// Renders the page.
///
/// # Errors
/// The template fails.
pub fn render(page: Page<'_>) -> Result<String> {
    let picture = |name: &str| page.pictures.get(name).map_or("", String::as_str);
    let sections = page.outcomes().map(|outcome| Section {
        outcome,
        legends: legends(&outcome.columns),
        origin: plain(&origin(outcome).unwrap_or_default()),
        picture: picture(&outcome.name),
    });
    let facts = page.facts().into_iter();
    let content = ResultsPage {
        warning: if page.report.quick { SHORT } else { "" },
        opening: page.opening,
        facts: facts.map(|(name, value)| (name, plain(&value))).collect(),
        method: plain(METHOD),
        sections: sections.collect(),
        history: picture(HISTORY),
    };
    content.render().context("cannot make the results page")
}

/// Text without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::report;
    use super::super::results::pictures;
    use super::*;

    #[test]
    fn the_page_has_tables_legends_and_pictures_inside() {
        let mut report = report();
        report.command = "suite <all>".to_owned();
        let pictures = pictures(&report).unwrap();
        let page = Page {
            report: &report,
            opening: None,
            beside: &[],
            pictures: &pictures,
        };
        let html = render(page).unwrap();
        for part in [
            "EPYC, 2 CPUs",
            "suite &#60;all&#62;",
            "<th scope=\"col\">events/s</th>",
            "<td>1 000</td>",
            "acknowledged events per second",
            "<svg width=",
        ] {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        for absent in ["<script", "mean nothing", "Run by run", "http://127"] {
            assert!(!html.contains(absent), "{absent} is in\n{html}");
        }
    }
}
