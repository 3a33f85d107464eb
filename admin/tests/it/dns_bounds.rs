//! Bounds of DNS lookups: the size of an answer, the length of a chain of aliases, and no cache.

use crate::servers::dns::DnsServer;
use millrace_admin::dns::{Dns, Proof};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

const CHALLENGE: &str = "mX0_3cJ8-7nqQ1hA5tYw9uZ2eK4rB6sD8fG0jL2pN4v";
/// Numbers of types of records.
const CNAME: u16 = 5;
const TXT: u16 = 16;
/// Flags of a whole response, and of one that did not fit.
const WHOLE: [u8; 2] = [0x81, 0x80];
const TRUNCATED: [u8; 2] = [0x83, 0x80];

/// Names that were asked for.
type Names = Arc<Mutex<HashSet<Vec<u8>>>>;

/// Makes a response to a query of one question; each answer has a type and data.
fn response(query: &[u8], flags: [u8; 2], answers: &[(u16, &[u8])]) -> Vec<u8> {
    // The empty label at the end of the name, its type and class follow the header.
    let name_bytes = query[12..].iter().position(|byte| *byte == 0).unwrap();
    let question = &query[12..12 + name_bytes + 5];
    let mut response = query[..2].to_vec();
    response.extend(flags);
    response.extend([0, 1, 0, answers.len() as u8, 0, 0, 0, 0]);
    response.extend(question);
    for (kind, data) in answers {
        // The name of the question; the internet's class, and sixty seconds to live.
        response.extend([0xc0, 12]);
        response.extend(kind.to_be_bytes());
        response.extend([0, 1, 0, 0, 0, 60]);
        response.extend((data.len() as u16).to_be_bytes());
        response.extend(*data);
    }
    response
}

/// Makes data of a TXT record, of this length in all.
fn texts(bytes: usize) -> Vec<u8> {
    let mut data = vec![b'x'; bytes];
    for at in (0..bytes).step_by(256) {
        data[at] = (bytes - at - 1).min(255) as u8;
    }
    data
}

/// Makes data of the TXT record that proves a domain.
fn proof() -> Vec<u8> {
    [&[CHALLENGE.len() as u8][..], CHALLENGE.as_bytes()].concat()
}

/// Answers a query by TCP with 65 535 bytes, the proof at their end, and goes on sending.
async fn answer_endlessly(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut query = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut query).await?;
    let bare = response(&query, WHOLE, &[(TXT, &[]), (TXT, &proof())]);
    let filler = texts(usize::from(u16::MAX) - bare.len());
    let answer = response(&query, WHOLE, &[(TXT, &filler), (TXT, &proof())]);
    stream.write_u16(answer.len().try_into().unwrap()).await?;
    stream.write_all(&answer).await?;
    loop {
        stream.write_all(&filler).await?;
    }
}

#[tokio::test]
async fn the_largest_answer_is_read_and_not_what_follows_it() {
    let (udp, tcp) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // The port may be taken for UDP.
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            break (udp, tcp);
        }
    };
    let dns = Dns::new(udp.local_addr().ok());
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((bytes, from)) = udp.recv_from(&mut query).await {
            let truncated = response(&query[..bytes], TRUNCATED, &[]);
            udp.send_to(&truncated, from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            // It ends when the client closes the connection.
            tokio::spawn(async move { answer_endlessly(&mut stream).await });
        }
    });
    let found = dns.proof("large.example", CHALLENGE).await;
    assert_eq!(found, Ok(Proof::Found));
}

/// Starts a nameserver that answers so many questions with an alias, and then with the proof;
/// returns a client, and the names that are asked for.
async fn chain(aliases: usize) -> (Dns, Names) {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let dns = Dns::new(server.local_addr().ok());
    let asked = Names::default();
    let names = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut packet = [0; 512];
        while let Ok((bytes, from)) = server.recv_from(&mut packet).await {
            let query = &packet[..bytes];
            let name = query[12..].split(|byte| *byte == 0).next().unwrap();
            let number = {
                let mut names = names.lock().unwrap();
                names.insert(name.to_ascii_lowercase());
                names.len()
            };
            let alias = format!("\x05n{number:04}\x07example\0");
            let answer = match number > aliases {
                true => response(query, WHOLE, &[(TXT, &proof())]),
                false => response(query, WHOLE, &[(CNAME, alias.as_bytes())]),
            };
            server.send_to(&answer, from).await.unwrap();
        }
    });
    (dns, asked)
}

#[tokio::test]
async fn a_chain_of_aliases_is_followed_for_eight_questions() {
    let table = [
        (0, Proof::Found, 1),
        (7, Proof::Found, 8),
        (8, Proof::Missing, 8),
        (1_000, Proof::Missing, 8),
    ];
    for (aliases, expected, questions) in table {
        let (dns, asked) = chain(aliases).await;
        let found = dns.proof("chain.example", CHALLENGE).await;
        assert_eq!(found, Ok(expected), "{aliases}");
        assert_eq!(asked.lock().unwrap().len(), questions, "{aliases}");
    }
}

#[tokio::test]
async fn an_answer_is_not_kept_for_the_next_question() {
    let name = "_millrace-challenge.changing.example 3600 TXT";
    let mut server = DnsServer::start(&format!("{name} \"other\"")).await;
    let dns = server.client();
    let before = dns.proof("changing.example", CHALLENGE).await;
    assert_eq!(before, Ok(Proof::Different));
    server.add(&format!("{name} \"{CHALLENGE}\"")).await;
    let after = dns.proof("changing.example", CHALLENGE).await;
    assert_eq!(after, Ok(Proof::Found));
}
