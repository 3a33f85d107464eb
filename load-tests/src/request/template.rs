//! Requests of one size: head and body, built once and patched in place.

use super::body::{Body, Fields, PatchOffsets};
use super::encoder::Encoder;
use crate::api::Header;
use crate::plan::Plan;
use crate::target::Target;
use anyhow::Result;
use std::fmt::Write;

/// Request whose fields change from one sending to the next.
pub(super) struct Template {
    events: u32,
    body: Vec<u8>,
    offsets: PatchOffsets,
    head: String,
    encoder: Encoder,
    compressed: Vec<u8>,
    wire: Vec<u8>,
    /// Position of the body in `wire` when it is not compressed.
    body_at: usize,
}

impl Template {
    /// Builds a request around a body.
    ///
    /// # Errors
    /// The compressor does not accept the level.
    pub(super) fn new(plan: &Plan, target: &Target, body: Body) -> Result<Self> {
        let encoder = Encoder::new(plan.compression, plan.compression_level)?;
        let mut template = Self {
            events: body.events,
            body: body.bytes,
            offsets: body.offsets,
            head: head(plan, target, &encoder),
            encoder,
            compressed: Vec::new(),
            wire: Vec::new(),
            body_at: 0,
        };
        if matches!(template.encoder, Encoder::None) {
            // The wire bytes are the only copy of the body.
            let body = std::mem::take(&mut template.body);
            template.put_head(body.len());
            template.body_at = template.wire.len();
            template.wire.extend_from_slice(&body);
        }
        Ok(template)
    }

    /// Number of events in the request.
    pub(super) const fn events(&self) -> u32 {
        self.events
    }

    /// Bytes of the request on the wire.
    pub(super) fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Writes the changing fields, and compresses the body.
    ///
    /// # Errors
    /// The compressor failed.
    pub(super) fn prepare(&mut self, fields: &Fields<'_>) -> Result<()> {
        if matches!(self.encoder, Encoder::None) {
            let body = self.wire.get_mut(self.body_at..).unwrap_or_default();
            self.offsets.patch(body, fields);
            return Ok(());
        }
        self.offsets.patch(&mut self.body, fields);
        let compressed_bytes = self.encoder.encode(&self.body, &mut self.compressed)?;
        self.put_head(compressed_bytes);
        let compressed = self.compressed.get(..compressed_bytes).unwrap_or_default();
        self.wire.extend_from_slice(compressed);
        Ok(())
    }

    fn put_head(&mut self, body_bytes: usize) {
        self.wire.clear();
        self.wire.extend_from_slice(self.head.as_bytes());
        self.wire
            .extend_from_slice(format!("{body_bytes}\r\n\r\n").as_bytes());
    }
}

/// Head of a request up to the number of its body's bytes.
fn head(plan: &Plan, target: &Target, encoder: &Encoder) -> String {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\n",
        target.path, target.authority
    );
    if !plan.headers.iter().any(Header::is_content_type) {
        head.push_str("Content-Type: application/json\r\n");
    }
    for header in &plan.headers {
        let _ = write!(head, "{}: {}\r\n", header.name(), header.value());
    }
    if let Some(coding) = encoder.coding() {
        let _ = write!(head, "Content-Encoding: {coding}\r\n");
    }
    head.push_str("Content-Length: ");
    head
}
