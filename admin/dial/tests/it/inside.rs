//! No private address is dialled in any notation.

use crate::canary::Canary;
use crate::forms;
use crate::resolver::Scripted;
use millrace_dial::{DialError, Guard};
use std::error::Error;

/// The resolver's answer: names lead to this machine and its network.
const INSIDE: &[&[&str]] = &[&["127.0.0.1", "::1", "10.0.0.1"]];

/// URLs that parsers disagree about; each has the canary's port in place of `0`.
const URLS: [&str; 24] = [
    "http://8.8.8.8@127.0.0.1:0/",
    "http://8.8.8.8:80@127.0.0.1:0/",
    "http://user:8.8.8.8@[::1]:0/",
    "http://8.8.8.8%40@127.0.0.1:0/",
    "http://127.0.0.1:0#@8.8.8.8/",
    "http://127.0.0.1:0?@8.8.8.8/",
    "http://127.0.0.1:0\\@8.8.8.8/",
    "http:\\\\127.0.0.1:0/",
    "http:/127.0.0.1:0/",
    "http:127.0.0.1:0/",
    "http:////127.0.0.1:0/",
    "HTTP://127.0.0.1:0/",
    "hTTpS://127.0.0.1:0/",
    " http://127.0.0.1:0/ ",
    "http://127.0\n.0.1:0/",
    "http://127.0\t.0.1:0/",
    "http://%31%32%37.0.0.1:0/",
    "http://127.1:0/",
    "http://0:0/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:0/",
    "http://[::]:0/",
    "https://localhost:0/",
    "http://8.8.8.8@localhost:0/",
    "http://localhost%2e:0/",
];

fn guard(allow_private: bool) -> Guard {
    Guard::with_resolver(allow_private, Scripted::new(INSIDE)).unwrap()
}

/// Text of an error and its causes, without the URL.
fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let chain = std::iter::successors(Some(&error as &(dyn Error + 'static)), |e| (*e).source());
    chain.map(|error| error.to_string() + "\n").collect()
}

#[tokio::test]
async fn no_notation_of_a_private_address_is_dialled() {
    let canary = Canary::new();
    let guard = guard(false);
    let forms = forms::inside();
    assert!(forms.len() >= 200, "{}", forms.len());
    for form in &forms {
        let addresses = guard.addresses(form).await;
        assert_eq!(addresses, Err(DialError::NoAddress), "{form}");
        let connected = guard.connect(form, canary.port()).await;
        assert_eq!(connected.unwrap_err(), DialError::NoAddress, "{form}");
    }
    assert_eq!(canary.connections(), 0);
    eprintln!("{} forms", forms.len());
}

#[tokio::test]
async fn no_url_with_a_private_address_is_requested() {
    let canary = Canary::new();
    let client = guard(false).http_client();
    let port = canary.port();
    let of_forms = forms::inside()
        .into_iter()
        .flat_map(|form| ["http", "https"].map(|scheme| format!("{scheme}://{form}:{port}/")));
    let odd = URLS.map(|url| url.replace(":0", &format!(":{port}")));
    let mut asked = 0;
    for url in of_forms.chain(odd) {
        let Err(error) = client.get(&url).send().await else {
            panic!("{url:?} was answered");
        };
        // No connection is tried for a text that is not a URL.
        if !error.is_builder() {
            assert_eq!(
                DialError::of(&error),
                Some(DialError::NoAddress),
                "{url:?}: {error:?}"
            );
            asked += 1;
        }
    }
    assert_eq!(canary.connections(), 0);
    assert!(asked >= 400, "{asked}");
}

#[tokio::test]
async fn a_refused_address_has_the_error_of_a_name_that_does_not_resolve() {
    let port = Canary::new().port();
    let unknown = Guard::with_resolver(false, Scripted::new(&[])).unwrap();
    let inside = guard(false);
    let of_name = |guard: Guard| async move {
        let url = format!("http://some.example:{port}/");
        let error = guard.http_client().get(url).send().await.unwrap_err();
        let connected = guard.connect("some.example", port).await.unwrap_err();
        (words(error), connected)
    };
    assert_eq!(of_name(unknown).await, of_name(inside.clone()).await);
    let of_address = |host: &'static str| {
        let client = inside.http_client();
        async move {
            let url = format!("http://{host}:{port}/");
            words(client.get(url).send().await.unwrap_err())
        }
    };
    assert_eq!(
        of_address("127.0.0.1").await,
        of_address("some.example").await
    );
}

#[tokio::test]
async fn private_addresses_are_dialled_when_they_are_allowed() {
    let canary = Canary::new();
    let guard = guard(true);
    let mut forms = forms::plain([127, 0, 0, 1].into());
    forms.extend(["[::ffff:127.0.0.1]", "localhost", "LocalHost."].map(str::to_owned));
    for form in &forms {
        guard.connect(form, canary.port()).await.unwrap();
        assert_eq!(canary.connections(), 1, "{form}");
    }
}
