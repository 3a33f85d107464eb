//! Keys that the library has no paths for: with an empty part, as `a//b`, `/a` and `a/` have.
//!
//! Between the library and the store a part that is empty has a mark, a character that Unicode assigns to nobody: what a
//! store lists gets it, and what is asked of the store loses it. Some keys cannot be asked for even so, as URLs have no
//! such paths: they are left out of what is listed, and named.

/// Before a part that is empty, or that begins so itself.
const MARK: char = '\u{F8FF}';
/// The same in a URL.
const MARK_IN_URL: &str = "%EF%A3%BF";

/// A key as the library takes it.
pub(super) fn marked(key: &str) -> String {
    by_parts(key, |part| {
        let needs_mark = part.is_empty() || part.starts_with(MARK);
        needs_mark.then(|| format!("{MARK}{part}"))
    })
}

/// A key as the store has it, of one that the library has.
pub(super) fn plain(path: &str) -> String {
    by_parts(path, |part| part.strip_prefix(MARK).map(str::to_owned))
}

/// A path of a URL as the store takes it; `None` if it is as it should be.
pub(super) fn plain_in_url(path: &str) -> Option<String> {
    // Some stores are asked with the slashes of keys encoded.
    let plain = ["/", "%2F"].iter().fold(path.to_owned(), |path, slash| {
        path.replace(&format!("{slash}{MARK_IN_URL}"), slash)
    });
    (plain != path).then_some(plain)
}

fn by_parts(key: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let parts = key.split('/');
    let changed = parts.map(|part| change(part).unwrap_or_else(|| part.to_owned()));
    changed.collect::<Vec<_>>().join("/")
}

/// How a store writes what it lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Element of an object.
    pub(super) object: &'static str,
    /// Element of its key.
    pub(super) key: &'static str,
}

/// A page of what a store lists, as the library takes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) body: String,
    /// Keys that are left out of it.
    pub(super) left_out: Vec<String>,
}

impl Page {
    /// Makes it of what the store says.
    pub(super) fn of(said: &str, form: Form) -> Self {
        let (open, close) = tags(form.object);
        let mut page = Self::default();
        let mut rest = said;
        while let Some((before, (object, behind))) = rest
            .split_once(&open)
            .and_then(|(before, after)| Some((before, after.split_once(&close)?)))
        {
            page.body += before;
            match with_mark(object, form) {
                Ok(object) => page.body += &format!("{open}{object}{close}"),
                Err(key) => page.left_out.push(key),
            }
            rest = behind;
        }
        page.body += rest;
        page
    }
}

/// An object whose key has marks; the key, if it cannot be asked for.
fn with_mark(object: &str, form: Form) -> Result<String, String> {
    let (open, close) = tags(form.key);
    let found = object.split_once(&open);
    let found = found.and_then(|(before, after)| Some((before, after.split_once(&close)?)));
    match found {
        Some((_, (key, _))) if !can_be_asked_for(key) => Err(readable(key)),
        Some((before, (key, behind))) => {
            Ok(format!("{before}{open}{}{close}{behind}", marked(key)))
        }
        // A name that XML has no characters for comes encoded.
        None => match object.split_once(&format!("<{} ", form.key)) {
            Some((_, rest)) => {
                let key = rest.split_once('>').map_or(rest, |(_, key)| key);
                let key = key.split('<').next().unwrap_or_default();
                Err(readable(key))
            }
            None => Ok(object.to_owned()),
        },
    }
}

fn tags(element: &str) -> (String, String) {
    (format!("<{element}>"), format!("</{element}>"))
}

/// Whether a URL can have the key as its path, and the library as its own.
fn can_be_asked_for(key: &str) -> bool {
    let mut entities = key.split("&#").skip(1);
    let is_control = |entity: &str| {
        let number = entity.split(';').next().unwrap_or_default();
        let hex = number.strip_prefix(['x', 'X']);
        let number = match hex {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        number.is_ok_and(|number| number < 32 || number == 127)
    };
    let mut parts = key.split('/');
    !parts.any(|part| matches!(part, "." | ".."))
        && !key.chars().any(|it| it.is_ascii_control())
        && !entities.any(is_control)
}

/// A key for people.
fn readable(key: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    let plain = |text: String, (entity, symbol): (&str, &str)| text.replace(entity, symbol);
    let key = entities.into_iter().fold(key.to_owned(), plain);
    key.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;
    use proptest::prelude::*;

    const S3: Form = Form {
        object: "Contents",
        key: "Key",
    };

    proptest! {
        #[test]
        fn every_key_is_known_again(key in "([a/\u{F8FF}.& ]|[^/\\pC]){1,20}") {
            let path = marked(&key);
            prop_assert_eq!(plain(&path), key.as_str());
            if can_be_asked_for(&key) {
                let parsed = Path::parse(&path).unwrap();
                prop_assert_eq!(parsed.as_ref(), path.as_str());
            }
        }
    }

    #[test]
    fn a_page_has_marks_and_names_what_it_leaves_out() {
        let said = "<L><Name>b</Name><Contents><Key>a//b</Key><Size>1</Size></Contents>\
                    <Contents><Key>a/../b</Key></Contents><Contents><Key>a/b</Key></Contents>\
                    <Contents><Key>a&amp;&#10;</Key></Contents><Next>t</Next></L>";
        let expected = "<L><Name>b</Name><Contents><Key>a/\u{F8FF}/b</Key><Size>1</Size></Contents>\
                        <Contents><Key>a/b</Key></Contents><Next>t</Next></L>";
        let page = Page::of(said, S3);
        assert_eq!(page.body, expected);
        assert_eq!(page.left_out, ["a/../b", "a&&#10;"]);
        let azure = Form {
            object: "Blob",
            key: "Name",
        };
        let said = r#"<Blobs><Blob><Name Encoded="true">a%02b</Name><P/></Blob></Blobs>"#;
        let page = Page::of(said, azure);
        assert_eq!(
            (page.body.as_str(), page.left_out),
            ("<Blobs></Blobs>", vec!["a%02b".to_owned()])
        );
        for odd in [
            "",
            "<Contents>",
            "<Contents><Key>a",
            "<Contents></Contents>",
        ] {
            assert_eq!(Page::of(odd, S3).body, odd);
        }
    }

    #[test]
    fn a_url_loses_its_marks() {
        assert_eq!(plain_in_url("/b/a/%EF%A3%BF/c").as_deref(), Some("/b/a//c"));
        assert_eq!(
            plain_in_url("/b/%EF%A3%BF%EF%A3%BFx").as_deref(),
            Some("/b/%EF%A3%BFx")
        );
        // As Google Cloud Storage is asked.
        assert_eq!(
            plain_in_url("/b/a%2F%EF%A3%BF%2F%EF%A3%BF%EF%A3%BFx").as_deref(),
            Some("/b/a%2F%2F%EF%A3%BFx")
        );
        assert_eq!(plain_in_url("/b/a//c"), None);
    }
}
