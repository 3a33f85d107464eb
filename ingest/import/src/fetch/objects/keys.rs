//! Keys that the `object_store` library has no paths for: those with an empty part, as `a//b`,
//! `/a` and `a/`.
//!
//! Between the library and the store an empty part has a mark, a character that Unicode reserves
//! for private use: keys in listings get it, and paths of requests lose it. Some keys cannot be
//! requested even so, as URLs have no such paths: they are left out of listings, and reported.

/// Mark before a part that is empty, or that begins with the mark itself.
const MARK: char = '\u{F8FF}';
/// Percent-encoded mark.
const MARK_IN_URL: &str = "%EF%A3%BF";

/// Adds marks to a key, for the library.
pub(super) fn marked(key: &str) -> String {
    by_parts(key, |part| {
        let needs_mark = part.is_empty() || part.starts_with(MARK);
        needs_mark.then(|| format!("{MARK}{part}"))
    })
}

/// Removes the marks from a path of the library.
pub(super) fn plain(path: &str) -> String {
    by_parts(path, |part| part.strip_prefix(MARK).map(str::to_owned))
}

/// Removes the marks from the path of a URL; `None` if it has none.
pub(super) fn plain_in_url(path: &str) -> Option<String> {
    // Requests to some stores have the slashes of keys encoded.
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

/// Names of the XML elements in a store's listings.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingElements {
    /// Element of an object.
    pub(super) object: &'static str,
    /// Element of the object's key.
    pub(super) key: &'static str,
}

/// A page of a listing, with marks for the library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListingPage {
    pub(super) body: String,
    /// Keys that are left out of the page.
    pub(super) left_out: Vec<String>,
}

impl ListingPage {
    /// Adds marks to the keys of a response.
    pub(super) fn of(response: &str, elements: ListingElements) -> Self {
        let (open, close) = tags(elements.object);
        let mut page = Self::default();
        let mut rest = response;
        while let Some((before, (object, behind))) = rest
            .split_once(&open)
            .and_then(|(before, after)| Some((before, after.split_once(&close)?)))
        {
            page.body += before;
            match with_mark(object, elements) {
                Ok(object) => page.body += &format!("{open}{object}{close}"),
                Err(key) => page.left_out.push(key),
            }
            rest = behind;
        }
        page.body += rest;
        page
    }
}

/// Adds marks to the key of an object's XML; returns the key if it cannot be requested.
fn with_mark(object: &str, elements: ListingElements) -> Result<String, String> {
    let (open, close) = tags(elements.key);
    let found = object.split_once(&open);
    let found = found.and_then(|(before, after)| Some((before, after.split_once(&close)?)));
    match found {
        Some((_, (key, _))) if !is_requestable(key) => Err(readable(key)),
        Some((before, (key, behind))) => {
            Ok(format!("{before}{open}{}{close}{behind}", marked(key)))
        }
        // A key with characters that XML does not have is encoded.
        None => match object.split_once(&format!("<{} ", elements.key)) {
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

/// Returns true if both URLs and the library have a path for the key.
fn is_requestable(key: &str) -> bool {
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

/// Decodes a key's XML entities, for people.
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

    const S3: ListingElements = ListingElements {
        object: "Contents",
        key: "Key",
    };

    proptest! {
        #[test]
        fn a_marked_key_maps_back_to_itself(key in "([a/\u{F8FF}.& ]|[^/\\pC]){1,20}") {
            let path = marked(&key);
            prop_assert_eq!(plain(&path), key.as_str());
            if is_requestable(&key) {
                let parsed = Path::parse(&path).unwrap();
                prop_assert_eq!(parsed.as_ref(), path.as_str());
            }
        }
    }

    #[test]
    fn keys_of_a_page_are_marked_and_unrequestable_ones_are_reported() {
        let listed = "<L><Name>b</Name><Contents><Key>a//b</Key><Size>1</Size></Contents>\
                    <Contents><Key>a/../b</Key></Contents><Contents><Key>a/b</Key></Contents>\
                    <Contents><Key>a&amp;&#10;</Key></Contents><Next>t</Next></L>";
        let expected = "<L><Name>b</Name><Contents><Key>a/\u{F8FF}/b</Key><Size>1</Size></Contents>\
                        <Contents><Key>a/b</Key></Contents><Next>t</Next></L>";
        let page = ListingPage::of(listed, S3);
        assert_eq!(page.body, expected);
        assert_eq!(page.left_out, ["a/../b", "a&&#10;"]);
        let azure = ListingElements {
            object: "Blob",
            key: "Name",
        };
        let listed = r#"<Blobs><Blob><Name Encoded="true">a%02b</Name><P/></Blob></Blobs>"#;
        let page = ListingPage::of(listed, azure);
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
            assert_eq!(ListingPage::of(odd, S3).body, odd);
        }
    }

    #[test]
    fn marks_are_removed_from_a_url() {
        assert_eq!(plain_in_url("/b/a/%EF%A3%BF/c").as_deref(), Some("/b/a//c"));
        assert_eq!(
            plain_in_url("/b/%EF%A3%BF%EF%A3%BFx").as_deref(),
            Some("/b/%EF%A3%BFx")
        );
        // As in a request to Google Cloud Storage.
        assert_eq!(
            plain_in_url("/b/a%2F%EF%A3%BF%2F%EF%A3%BF%EF%A3%BFx").as_deref(),
            Some("/b/a%2F%2F%EF%A3%BFx")
        );
        assert_eq!(plain_in_url("/b/a//c"), None);
    }
}
