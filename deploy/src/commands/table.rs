//! Lists on a terminal.

use comfy_table::{ContentArrangement, Table, presets};

/// Prints rows below their headings, or a sentence when there are none.
pub fn print<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>, empty: &str) {
    if rows.is_empty() {
        crate::print(empty);
        return;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    table.add_rows(rows);
    crate::print(&table.trim_fmt());
}
