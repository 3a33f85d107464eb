//! JSON that overflows the stack of who reads it as a `serde_json::Value`.

/// Object with serde_json's marker of a raw value within `lists` lists, whose text is the same
/// again, `times` times. 200 times and 120 lists have some 450 kB.
#[must_use]
pub fn nested_markers(times: usize, lists: usize) -> String {
    let (open, close) = ("[".repeat(lists), "]".repeat(lists));
    let mut text = "0".to_owned();
    for _ in 0..times {
        // An escape of six bytes grows by five each time; one of two would double.
        let escaped = text.replace('\\', "\\u005c").replace('"', "\\u0022");
        text = format!("{open}{{\"$serde_json::private::RawValue\":\"{escaped}\"}}{close}");
    }
    text
}
