//! Connections that wait for a request, where all places are taken.

use crate::client::request;
use crate::test_env::{TestEnv, batch};

/// Starts a server that has four places.
fn small() -> TestEnv {
    TestEnv::with(|options| options.server.limits.connections_max = 4)
}

#[test]
fn a_connection_that_waits_for_a_request_gives_way_to_a_new_one() {
    let whole = request("POST", "/batch/", &[], batch(&["e"]).as_bytes());
    // Bytes that a client has sent, and whether it has a response.
    let table = [
        ("silent from the start", 0, false),
        ("in the middle of a head", 20, false),
        ("between two requests", whole.len(), true),
    ];
    for (kind, sent, is_answered) in table {
        let env = small();
        let mut held = [(); 4].map(|()| env.client());
        for client in &mut held {
            client.send(&whole[..sent]);
            if is_answered {
                assert_eq!(client.read().status, 200, "{kind}");
            }
        }
        let mut fifth = env.client();
        fifth.send(&whole);
        assert_eq!(fifth.read().status, 200, "{kind}");
        let rest = if is_answered {
            &whole[..]
        } else {
            &whole[sent..]
        };
        let mut served = 0;
        for client in &mut held {
            client.send(rest);
            served += usize::from(client.reads_status() == Some(200));
        }
        assert_eq!(served, 3, "{kind}");
    }
}

#[test]
fn connections_in_the_middle_of_a_body_stay_and_a_new_one_gets_a_503() {
    let env = small();
    let body = batch(&["e"]);
    let headers = [("Expect", "100-continue")];
    let whole = request("POST", "/batch/", &headers, body.as_bytes());
    let head = &whole[..whole.len() - body.len()];
    let mut held = [(); 4].map(|()| env.client());
    for client in &mut held {
        client.send(head);
        // Its handler waits for the body.
        assert_eq!(client.read().status, 100);
    }
    let refused = env.client().read();
    let refused = (refused.status, refused.code());
    assert_eq!(refused, (503, "too_many_connections".to_owned()));
    for client in &mut held {
        client.send(body.as_bytes());
        assert_eq!(client.read().status, 200);
    }
    assert_eq!(env.rows().events.len(), 4);
}
