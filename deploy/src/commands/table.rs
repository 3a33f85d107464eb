//! Tables on a terminal. A row is one line, whatever its texts hold.

use crate::output;
use comfy_table::{ContentArrangement, Table, presets};
use millrace_rows::shown;

/// Prints rows below their headings, or a sentence if there are none.
pub fn print<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>, empty: &str) {
    if rows.is_empty() {
        output::print(empty);
        return;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    let rows = rows.into_iter();
    table.add_rows(rows.map(|row| row.map(|cell| shown(&cell).into_owned())));
    output::print(&table.trim_fmt());
}
