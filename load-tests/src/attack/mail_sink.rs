//! SMTP server on this machine that takes all mails and counts them.
//!
//! It says what a client needs to hear to deliver one, and nothing else: no TLS, no login.

use super::findings::Findings;
use super::hostile_text::is_hostile;
use anyhow::{Context, Result};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Name of the mails in a report.
const MAILS: &str = "mails of invitations";
/// Longest wait for the next line of a client.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest mail in bytes; invitations have some kilobytes.
const MAIL_BYTES_MAX: usize = 1 << 20;

/// A running server, which takes no more mails once dropped.
pub(super) struct MailSink {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl MailSink {
    /// Starts a server that adds its mails to the findings.
    pub(super) fn start(findings: &Arc<Findings>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a mail server")?;
        let address = listener.local_addr().context("a mail server")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (findings, ends) = (Arc::clone(findings), Arc::clone(&is_over));
        std::thread::spawn(move || {
            // Millrace holds four conversations at a time, so there are few threads.
            while let Ok((stream, _)) = listener.accept() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let findings = Arc::clone(&findings);
                // The server under attack notices a conversation that breaks off, and tries again.
                std::thread::spawn(move || drop(converse(&stream, &findings)));
            }
        });
        Ok(Self { address, is_over })
    }

    /// URL of the server, as a setting has it.
    pub(super) fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }
}

impl Drop for MailSink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
    }
}

/// Takes mails until the client ends the conversation.
fn converse(stream: &TcpStream, findings: &Findings) -> io::Result<()> {
    stream.set_read_timeout(Some(LINE_TIMEOUT))?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    writer.write_all(b"220 sink\r\n")?;
    loop {
        let line = line(&mut reader)?;
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let reply = match verb.as_str() {
            "EHLO" | "HELO" => "250 sink",
            "MAIL" | "RCPT" | "RSET" | "NOOP" => "250 ok",
            "DATA" => {
                writer.write_all(b"354 go on\r\n")?;
                take(&mail(&mut reader)?, findings);
                "250 taken"
            }
            "QUIT" => return writer.write_all(b"221 bye\r\n"),
            _ => "502 not known",
        };
        writer.write_all(reply.as_bytes())?;
        writer.write_all(b"\r\n")?;
    }
}

/// The next line, with its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    match reader.read_until(b'\n', &mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(String::from_utf8_lossy(&line).into_owned()),
    }
}

/// A mail up to the line with a single point.
fn mail(reader: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    loop {
        let line = line(reader)?;
        if line.trim_end() == "." {
            return Ok(text);
        }
        text.push_str(&line);
        if text.len() > MAIL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Counts a mail; one that shows control characters of a hostile text is a violation.
fn take(mail: &str, findings: &Findings) {
    findings.count(MAILS, "delivered");
    if mail.lines().any(|line| line.contains(is_hostile)) {
        findings.wrong("a mail shows what terminals follow".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn mails_are_taken_and_counted() {
        let findings = Arc::new(Findings::default());
        let sink = MailSink::start(&findings).unwrap();
        let mut stream = TcpStream::connect(sink.address).unwrap();
        let mails = "EHLO a\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nSubject: x\r\n\r\ny\r\n.\r\n\
            DATA\r\nevil\u{1b}[2J\r\n.\r\nQUIT\r\n";
        stream.write_all(mails.as_bytes()).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        let codes: Vec<&str> = replies.lines().map(|line| &line[..3]).collect();
        let expected = [
            "220", "250", "250", "250", "354", "250", "354", "250", "221",
        ];
        assert_eq!(codes, expected);
        assert_eq!(findings.outcomes()[MAILS]["delivered"], 2);
        assert_eq!(findings.wrongs().count, 1);
    }
}
