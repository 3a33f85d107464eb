//! Body decoder: takes off the encodings of a body, one inside the other.

use crate::decode_error::{invalid_encoding, too_many_blocks};
use crate::expansion::{
    ON_CORE_BYTES_MAX, ON_CORE_SENT_BYTES_MAX, ON_CORE_SLOW_BYTES_MAX, ON_CORE_SLOW_SENT_BYTES_MAX,
};
use crate::keys::keys_of;
use crate::{BodyBuf, Buffers, DecodeError, DecodeLimits, Decoder, Encoding, form};
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use std::cell::RefCell;

/// Encodings that a request names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// `Content-Encoding`.
    pub content_encoding: Encoding,
    /// `?compression=`.
    pub compression: Encoding,
    /// True if the content type is a form's.
    pub form: bool,
}

impl Hints {
    /// Returns true if the body may be encoded.
    #[must_use]
    pub fn may_be_encoded(&self, sent: &[u8]) -> bool {
        let named = [self.content_encoding, self.compression];
        self.form || named != [Encoding::Identity; 2] || is_compressed(sent)
    }

    /// Returns true if a body of so many bytes as sent is not to be decoded on a core: it is long,
    /// or its encoding takes long.
    #[must_use]
    pub fn may_take_long(&self, sent_bytes: usize) -> bool {
        let sent_bytes_max = match self.is_any_slow() {
            true => ON_CORE_SLOW_SENT_BYTES_MAX,
            false => ON_CORE_SENT_BYTES_MAX,
        };
        sent_bytes > sent_bytes_max
    }

    /// Decoded bytes up to which a core both decodes and parses a body of so many bytes as sent.
    /// What decodes to more is parsed beside the core; 0 if it is decoded beside it, too.
    #[must_use]
    pub fn on_core_bytes_max(&self, sent_bytes: usize) -> usize {
        match (self.is_any_slow(), self.may_take_long(sent_bytes)) {
            (_, true) => 0,
            (true, _) => ON_CORE_SLOW_BYTES_MAX,
            (false, _) => ON_CORE_BYTES_MAX,
        }
    }

    /// Returns true if one of the named encodings is slow.
    pub(crate) fn is_any_slow(&self) -> bool {
        let named = [self.content_encoding, self.compression];
        named.iter().any(|encoding| encoding.is_slow())
    }
}

/// Reason why a payload was not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyDecodeError {
    /// The payload cannot be decoded, is missing, or its encoding is not supported.
    Refused(ApiError),
    /// The output would exceed [`BodyDecoder::limits`].
    TooLarge(Encoded),
}

/// Encoded bytes that were too large to be decoded, for [`keys_in`](crate::keys_in).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Encoding of the bytes.
    pub encoding: Encoding,
    /// Bytes, unless they are those that were sent.
    pub inner: Option<Vec<u8>>,
    /// Project keys in as much of it as was decoded.
    pub keys: Vec<String>,
}

impl BodyDecodeError {
    /// Builds the error for bytes in `encoding` that would be too large and were not read.
    pub(crate) fn too_large(encoding: Encoding) -> Self {
        Self::TooLarge(Encoded {
            encoding,
            ..Encoded::default()
        })
    }
}

impl From<ApiError> for BodyDecodeError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// Takes off the encodings of a payload.
#[derive(Clone, Copy, Debug)]
pub struct BodyDecoder<'a> {
    /// Pool of buffers.
    pub buffers: &'a Buffers,
    /// Decoders of the core.
    pub decoder: &'a RefCell<Decoder>,
    /// Limits of the output of each step.
    pub limits: DecodeLimits,
}

impl BodyDecoder<'_> {
    /// Decodes a whole body: compressed, a form, both, or neither. `None` if it was sent as it is.
    ///
    /// # Errors
    ///
    /// 400 for a body that cannot be decoded or is missing, 415 for an encoding that a form names
    /// and that is not supported, and [`BodyDecodeError::TooLarge`].
    pub fn body(self, sent: &[u8], hints: Hints) -> Result<Option<BodyBuf>, BodyDecodeError> {
        // A form's encodings are its field's, not the body's; its body may be compressed besides.
        let compression = if hints.form && !is_compressed(sent) {
            Encoding::Identity
        } else {
            hints.compression
        };
        let encoding = match (hints.content_encoding, compression) {
            (Encoding::Identity, Encoding::Identity) => Encoding::of_magic(sent),
            // A text that begins like JSON is none of these; some SDKs name them all the same.
            (Encoding::Identity, Encoding::Base64 | Encoding::Lz64) if !form::is_form(sent) => {
                Encoding::Identity
            }
            (Encoding::Identity, Encoding::Base64 | Encoding::Lz64)
                if sent.starts_with(b"data=") =>
            {
                return self.form(sent, hints.compression);
            }
            (Encoding::Identity, named) | (named, _) => named,
        };
        let json = self.steps(encoding, sent)?;
        let text = json.as_deref().unwrap_or(sent);
        if hints.form && form::is_form(text) {
            let data = self.form(text, hints.compression);
            if let Some(json) = json {
                json.recycle(self.buffers);
            }
            return data;
        }
        Ok(json)
    }

    /// Decodes a form's field `data`.
    fn form(self, body: &[u8], hint: Encoding) -> Result<Option<BodyBuf>, BodyDecodeError> {
        if body.is_empty() {
            return Err(Self::empty_body().into());
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
        let json = self.data(&form.data, hint).map_err(|error| match error {
            BodyDecodeError::TooLarge(encoded) if encoded.inner.is_none() => {
                BodyDecodeError::TooLarge(Encoded {
                    inner: Some(form.data.to_vec()),
                    ..encoded
                })
            }
            other => other,
        })?;
        Ok(Some(json.unwrap_or_else(|| self.copy(&form.data))))
    }

    /// Decodes the value of `data`: JSON, base64 or LZString. `None` if it was sent as it is.
    ///
    /// # Errors
    ///
    /// 400 for a value that cannot be decoded, and [`BodyDecodeError::TooLarge`].
    pub fn data(self, data: &[u8], hint: Encoding) -> Result<Option<BodyBuf>, BodyDecodeError> {
        self.steps(form::encoding_of_data(data, hint), data)
    }

    /// Takes an encoding off, and the one inside of base64, which shows by its first bytes.
    fn steps(self, encoding: Encoding, sent: &[u8]) -> Result<Option<BodyBuf>, BodyDecodeError> {
        let Some(decoded) = self.step(encoding, sent)? else {
            return Ok(None);
        };
        if encoding != Encoding::Base64 {
            return Ok(Some(decoded));
        }
        match self.step(Encoding::of_magic(&decoded), &decoded) {
            Ok(None) => Ok(Some(decoded)),
            Ok(Some(inner)) => {
                decoded.recycle(self.buffers);
                Ok(Some(inner))
            }
            Err(BodyDecodeError::TooLarge(encoded)) => {
                let inner = Some(decoded.to_vec());
                Err(BodyDecodeError::TooLarge(Encoded { inner, ..encoded }))
            }
            Err(refused) => Err(refused),
        }
    }

    /// Takes one encoding off.
    fn step(self, encoding: Encoding, sent: &[u8]) -> Result<Option<BodyBuf>, BodyDecodeError> {
        if encoding == Encoding::Identity {
            return Ok(None);
        }
        let bytes_max = self.limits.of(encoding);
        if bytes_max == 0 {
            return Err(BodyDecodeError::too_large(encoding));
        }
        let mut out = self.buffers.take();
        let mut decoder = self.decoder.borrow_mut();
        match decoder.decode(encoding, sent, &mut out, bytes_max) {
            Ok(()) => Ok(Some(BodyBuf::Buffer(out))),
            Err(error) => {
                let error = match error {
                    DecodeError::Broken(detail) => invalid_encoding(detail).into(),
                    DecodeError::TooManyBlocks => too_many_blocks().into(),
                    DecodeError::TooLarge => BodyDecodeError::TooLarge(Encoded {
                        encoding,
                        inner: None,
                        keys: keys_of(&out),
                    }),
                };
                self.buffers.put(out);
                Err(error)
            }
        }
    }

    fn copy(self, text: &[u8]) -> BodyBuf {
        let mut copy = self.buffers.take();
        copy.extend_from_slice(text);
        BodyBuf::Buffer(copy)
    }

    /// Builds a 400 for a missing payload.
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
