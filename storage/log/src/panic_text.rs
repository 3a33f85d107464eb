//! Text of a panic that was caught.

use std::any::Any;
use std::panic::resume_unwind;
use std::path::Path;

/// Returns the text that a panic was given.
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let fixed = panic.downcast_ref::<&str>().copied();
    let formatted = || panic.downcast_ref::<String>().map(String::as_str);
    fixed.or_else(formatted).unwrap_or("without a text")
}

/// Goes on with a panic that was met while a file was read.
pub(crate) fn panic_again(path: &Path, panic: &(dyn Any + Send)) -> ! {
    let (path, text) = (path.display(), panic_text(panic));
    resume_unwind(Box::new(format!("reading {path} panicked: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_the_text_that_it_was_given() {
        let formatted = "a mistake of ours".to_owned();
        let panics: [(Box<dyn Any + Send>, &str); 3] = [
            (Box::new("a mistake"), "a mistake"),
            (Box::new(formatted), "a mistake of ours"),
            (Box::new(7), "without a text"),
        ];
        for (panic, text) in panics {
            assert_eq!(panic_text(&*panic), text);
        }
    }
}
