//! Statement with its settings.

/// Settings of a statement, by name.
pub(super) type Settings = Vec<(&'static str, &'static str)>;

/// Statement with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// SELECT with its FORMAT.
    pub sql: String,
    /// Settings of the format; not in the text, as a read-only statement may not set anything.
    pub settings: Settings,
    /// True if it contains a customer's query: then its limits are tighter, and its errors are the
    /// customer's.
    pub is_of_customer: bool,
}
