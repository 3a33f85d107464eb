//! The text that no output may show unescaped.

/// Control characters that a terminal, a log or a mail would interpret in a line of a table.
pub(super) const HOSTILE_TEXT: &str = "evil\u{1b}]0;pwned\u{7}\u{1b}[2J\r\n9999-99-99 forged\u{7f}\u{9b}31mred\u{202e}\u{2066}\u{2028}z";

/// Returns true for control characters of the hostile text, which no text of ours contains.
pub(super) fn is_hostile(c: char) -> bool {
    c != '\n' && HOSTILE_TEXT.contains(c) && (c.is_control() || c > '\u{2000}')
}
