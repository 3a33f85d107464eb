//! Handling of a request's body, without HTTP: parse, submit, commit to a log.

use crate::requests::Workload;
use crate::store::Store;
use anyhow::{Context, Result, anyhow};
use millrace_encoding::{BodyDecoder, Buffers, Decoder, Encoding, Expansion, Hints, testing};
use millrace_parse::{KeyLookup, Limits, ParseContext, Parser, Project, Protocol};
use millrace_rows::{Batch, EventRow, Micros, ProjectId, RowGroup};
use std::cell::RefCell;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use uuid::Uuid;

/// Time at which every measured request arrives.
pub const RECEIVED_AT: Micros = Micros(1_795_189_091_100_000);

/// Parse context of every measured request.
#[must_use]
pub fn parse_context() -> ParseContext<'static> {
    ParseContext {
        received_at: RECEIVED_AT,
        created_at: RECEIVED_AT,
        request_id: Uuid::from_u128(0x0191_f99b_0000_7000_8000_0000_0000_0001),
        engage: false,
        sent_at_query: None,
        historical_query: false,
        strict: false,
        dry_run: false,
        client_ip: Some([192, 0, 2, 1].into()),
        protocol: Protocol::V0,
        limits: Limits::default(),
    }
}

/// Project that every key belongs to.
pub const PROJECT: Project = Project {
    id: ProjectId(1),
    anonymize_ips: false,
    ingested_event: true,
};

/// An event that is ready to be encoded.
#[must_use]
pub fn event<'a>(properties: &'a [&'a [u8]]) -> EventRow<'a> {
    EventRow {
        uuid: Uuid::from_u128(0x0191_f99b_b499_70c4_9505_90a4_7f19_f05a),
        event: b"$pageview",
        properties,
        timestamp: RECEIVED_AT,
        team_id: PROJECT.id,
        distinct_id: b"user-00000001",
        created_at: RECEIVED_AT,
        historical_migration: false,
    }
}

/// Parses one body, again and again.
pub struct Parsing {
    parser: Parser,
    body: Vec<u8>,
}

impl Parsing {
    /// Creates a parser for a body.
    #[must_use]
    pub fn of(body: Vec<u8>) -> Self {
        Self {
            parser: Parser::default(),
            body,
        }
    }

    /// Parses the body into rows, and gives their buffers back.
    ///
    /// # Errors
    /// The body or one of its events was refused.
    pub fn once(&mut self) -> Result<()> {
        let batch = batch(&mut self.parser, &self.body)?;
        let groups = black_box(batch).groups.into_iter();
        self.parser.recycle(groups.map(|group| group.bytes));
        Ok(())
    }

    /// Parses the body into rows, as they go to the log.
    ///
    /// # Errors
    /// The body or one of its events was refused.
    pub fn rows(mut self) -> Result<Vec<RowGroup>> {
        Ok(batch(&mut self.parser, &self.body)?.groups)
    }
}

fn batch(parser: &mut Parser, body: &[u8]) -> Result<Batch> {
    let mut find = |_: &str| KeyLookup::Found(PROJECT);
    let parsed = parser
        .parse(black_box(body), &parse_context(), &mut find)
        .map_err(|refused| anyhow!("the body was refused: {refused:?}"))?;
    anyhow::ensure!(parsed.report.rejected_count == 0, "an event was refused");
    Ok(parsed.batch)
}

/// Commits one request after the other to a log that nobody ships.
pub struct Requests {
    parsing: Parsing,
    store: Store,
}

impl Requests {
    /// Opens a log in a folder of its own below `dir`; it takes about 2 GiB.
    ///
    /// # Errors
    /// The log cannot be opened, or the system has no thread left.
    pub fn of(workload: Workload, dir: &Path) -> Result<Self> {
        Ok(Self {
            parsing: Parsing::of(workload.body(false)),
            store: Store::below(dir)?,
        })
    }

    /// Takes one request from body to "on disk".
    ///
    /// # Errors
    /// The request was not stored: the log is full after about 2 GiB.
    pub fn once(&mut self) -> Result<()> {
        let Parsing { parser, body } = &mut self.parsing;
        let parse = |parser: &mut Parser| batch(parser, body);
        self.store.commit(parser, body.len(), parse)
    }
}

/// Most bytes that a body may decode to, as servers are configured.
const DECODED_BYTES_MAX: usize = 20 << 20;

/// Commits one request after the other whose body is gzip, as most SDKs send it.
pub struct GzipRequests {
    sent: Vec<u8>,
    buffers: Buffers,
    decoder: RefCell<Decoder>,
    parser: Parser,
    store: Store,
}

impl GzipRequests {
    /// Compresses the body and opens a log in a folder of its own below `dir`.
    ///
    /// # Errors
    /// See [`Requests::of`].
    pub fn of(workload: Workload, dir: &Path) -> Result<Self> {
        let level = flate2::Compression::default();
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), level);
        writer.write_all(&workload.body(false))?;
        Ok(Self {
            sent: writer.finish()?,
            buffers: Buffers::default(),
            decoder: RefCell::default(),
            parser: Parser::default(),
            store: Store::below(dir)?,
        })
    }

    /// Takes one request from body to "on disk".
    ///
    /// # Errors
    /// The request was not stored: the log is full after about 2 GiB.
    pub fn once(&mut self) -> Result<()> {
        let sent = black_box(self.sent.as_slice());
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let hints = Hints {
            content_encoding: Encoding::Gzip,
            ..Hints::default()
        };
        let decode = |limits| {
            let body_decoder = BodyDecoder {
                buffers: &self.buffers,
                decoder: &self.decoder,
                limits,
            };
            body_decoder.body(sent, hints)
        };
        let decoded = testing::decode(sent, hints, None, expansion, decode, |_| true);
        let json = decoded
            .json
            .map_err(|refused| anyhow!("the body was not decoded: {refused:?}"))?
            .context("the body was taken as it is")?;
        let parse = |parser: &mut Parser| batch(parser, &json);
        self.store.commit(&mut self.parser, json.len(), parse)?;
        json.recycle(&self.buffers);
        Ok(())
    }
}

/// Folder that lies in memory (`/dev/shm`), or the system's temporary folder if there is none.
#[must_use]
pub fn memory_dir() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::WORKLOADS;

    #[test]
    fn every_workload_is_committed_repeatedly() {
        for workload in WORKLOADS {
            let dir = tempfile::tempdir().unwrap();
            let mut requests = Requests::of(workload, dir.path()).unwrap();
            for _ in 0..3 {
                requests.once().unwrap();
            }
            assert!(requests.store.bytes_used() > 0, "{}", workload.name);
            let mut requests = GzipRequests::of(workload, dir.path()).unwrap();
            for _ in 0..3 {
                requests.once().unwrap();
            }
            assert!(requests.store.bytes_used() > 0, "gzip of {}", workload.name);
        }
    }
}
