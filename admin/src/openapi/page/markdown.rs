//! Markdown of the document as HTML. Tags in a text are shown, not obeyed.

use pulldown_cmark::{Event, Options, Parser, html};

/// Paragraphs, lists and tables of a text.
pub(super) fn blocks(text: &str) -> String {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).map(|event| match event {
        Event::Html(tag) | Event::InlineHtml(tag) => Event::Text(tag),
        other => other,
    });
    let mut written = String::new();
    html::push_html(&mut written, events);
    written
}

/// A text of one paragraph, without the element around it, for a cell of a table.
pub(super) fn inline(text: &str) -> String {
    let written = blocks(text);
    let written = written.trim();
    let inner = written
        .strip_prefix("<p>")
        .and_then(|rest| rest.strip_suffix("</p>"))
        .filter(|inner| !inner.contains("<p>"));
    inner.unwrap_or(written).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html_and_tags_stay_texts() {
        let table = [
            ("Only `a`.", "Only <code>a</code>."),
            ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
            ("a\n\nb", "<p>a</p>\n<p>b</p>"),
            (
                "- 400 `a`: b",
                "<ul>\n<li>400 <code>a</code>: b</li>\n</ul>",
            ),
            ("my_own_name *", "my_own_name *"),
        ];
        for (text, expected) in table {
            assert_eq!(inline(text), expected, "{text}");
        }
        assert!(blocks("| a |\n|---|\n| b |").contains("<td>b</td>"));
        assert!(!blocks("<script>\nalert()\n</script>").contains("<script"));
    }
}
