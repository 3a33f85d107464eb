//! Values of property columns, from the JSON text of `properties`.
//!
//! What a value is, and which values there are none of, is said of
//! [`PropertyColumn`](millrace_rows::PropertyColumn). A text that is no JSON has the values before
//! the byte where that shows; ingestion accepts none.
//!
//! | Module | Holds |
//! |---|---|
//! | `plan` | [`PropertyPlan`]: the columns, and the paths to look for in the rows of a project |
//! | `json` | the way to these paths through a text |
//! | `text`, `value`, `time` | texts without escapes; numbers and truth values; times |
//! | `values`, `keys` | values of one column; dictionary of its texts |
//! | `extract` | columns of a block |

mod extract;
mod json;
mod keys;
mod plan;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod value;
mod values;

pub(crate) use extract::{Extracted, Extractor};
pub use plan::PropertyPlan;
