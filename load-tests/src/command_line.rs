//! The command line as results show it: to be typed again, but without keys.

/// What stands for a key.
const HIDDEN: &str = "…";

/// The words of a command line, quoted where a shell asks for it. The program is named without its
/// folder, and the value of `--key` is left out.
#[must_use]
pub fn shown(words: impl IntoIterator<Item = String>) -> String {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let mut text = match program.rsplit_once('/') {
        Some((_, name)) => name.to_owned(),
        None => program,
    };
    let mut is_key = false;
    for word in words {
        text.push(' ');
        if std::mem::take(&mut is_key) {
            text.push_str(HIDDEN);
        } else if word.starts_with("--key=") {
            text.push_str("--key=");
            text.push_str(HIDDEN);
        } else {
            is_key = word == "--key";
            text.push_str(&quoted(&word));
        }
    }
    text
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed_again_but_for_its_keys() {
        for (words, text) in [
            (&["/usr/bin/load", "-c", "4"][..], "load -c 4"),
            (&["load", "--key", "secret", "-q"], "load --key … -q"),
            (&["load", "--key=secret", "-q"], "load --key=… -q"),
            (&["load", "--keys-file", "keys"], "load --keys-file keys"),
            (&["load", "--json", "a b"], "load --json 'a b'"),
            (&["load", "--json", "it's", ""], "load --json 'it'\\''s' ''"),
        ] {
            let words = words.iter().map(|&word| word.to_owned());
            assert_eq!(shown(words), text);
        }
    }
}
