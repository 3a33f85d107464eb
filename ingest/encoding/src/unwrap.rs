//! Which encodings a body has, one inside the other.

use crate::{Buffers, Decoder, Encoding, Whole, form};
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use std::cell::RefCell;

/// What the request says of its payload's encoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// `Content-Encoding`.
    pub content_encoding: Encoding,
    /// `?compression=`.
    pub compression: Encoding,
    /// Whether the content type is a form's.
    pub form: bool,
}

/// Takes a payload's encodings off.
#[derive(Clone, Copy, Debug)]
pub struct Unwrapper<'a> {
    /// Where buffers come from and go back to.
    pub buffers: &'a Buffers,
    /// The core's decoders.
    pub decoder: &'a RefCell<Decoder>,
    /// Bytes that a payload may have after any step.
    pub bytes_max: usize,
}

impl Unwrapper<'_> {
    /// A whole body: compressed, a form, both, or neither.
    ///
    /// # Errors
    ///
    /// 400 for what cannot be decoded or is not there, 413 for what grows too large, 415 for an
    /// encoding that a form names and we do not take.
    pub fn body(self, sent: Whole, hints: Hints) -> Result<Whole, ApiError> {
        // A form's encodings are its field's, not the body's; its body may be compressed besides.
        let compression = if hints.form && !is_compressed(&sent) {
            Encoding::Identity
        } else {
            hints.compression
        };
        let encoding = match (hints.content_encoding, compression) {
            (Encoding::Identity, Encoding::Identity) => Encoding::of_magic(&sent),
            // A text that begins like JSON is none of these; some SDKs promise them all the same.
            (Encoding::Identity, Encoding::Base64 | Encoding::Lz64) if !form::is_form(&sent) => {
                Encoding::Identity
            }
            (Encoding::Identity, Encoding::Base64 | Encoding::Lz64)
                if sent.starts_with(b"data=") =>
            {
                return self.form(&sent, hints.compression);
            }
            (Encoding::Identity, named) | (named, _) => named,
        };
        let mut json = self.step(encoding, sent)?;
        if encoding == Encoding::Base64 {
            json = self.unwrap_magic(json)?;
        }
        if hints.form && form::is_form(&json) {
            return self.form(&json, hints.compression);
        }
        Ok(json)
    }

    /// A form's field `data`.
    fn form(self, body: &[u8], hint: Encoding) -> Result<Whole, ApiError> {
        if body.is_empty() {
            return Err(Self::empty_body());
        }
        let form = form::read(body).ok_or_else(|| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                ErrorType::InvalidRequest,
                "invalid_body",
                "The form has no field data. Put the JSON into it, or send JSON as application/json.",
            )
        })?;
        let hint = match &form.compression {
            Some(name) => Encoding::named(Some(name))?,
            None => hint,
        };
        self.data(&form.data, hint)
    }

    /// The value of `data`: JSON, base64 or LZString.
    ///
    /// # Errors
    ///
    /// 400 for what cannot be decoded, 413 for what grows too large.
    pub fn data(self, data: &[u8], hint: Encoding) -> Result<Whole, ApiError> {
        let mut copy = self.buffers.take();
        copy.extend_from_slice(data);
        let encoding = form::encoding_of_data(data, hint);
        let json = self.step(encoding, Whole::Buffer(copy))?;
        if encoding == Encoding::Base64 {
            self.unwrap_magic(json)
        } else {
            Ok(json)
        }
    }

    /// Base64 may hold something compressed, which shows by its first bytes.
    fn unwrap_magic(self, decoded: Whole) -> Result<Whole, ApiError> {
        let encoding = Encoding::of_magic(&decoded);
        self.step(encoding, decoded)
    }

    /// Takes one encoding off.
    fn step(self, encoding: Encoding, sent: Whole) -> Result<Whole, ApiError> {
        if encoding == Encoding::Identity && sent.len() <= self.bytes_max {
            return Ok(sent);
        }
        let mut out = self.buffers.take();
        self.decoder
            .borrow_mut()
            .decode(encoding, &sent, &mut out, self.bytes_max)?;
        sent.recycle(self.buffers);
        Ok(Whole::Buffer(out))
    }

    /// 400 for want of a payload.
    #[must_use]
    pub fn empty_body() -> ApiError {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            ErrorType::InvalidRequest,
            "empty_body",
            "There is no payload. Send JSON in the body, or in ?data= with GET.",
        )
    }
}

fn is_compressed(sent: &[u8]) -> bool {
    Encoding::of_magic(sent) != Encoding::Identity
}
