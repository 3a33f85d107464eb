//! Responses of handlers, from the value to the bytes that are sent.
//!
//! | Module | Holds |
//! |---|---|
//! | `render` | the HTTP response of a success or an error |
//! | `paced_body` | a body that is sent in pieces, and cut off if it is read too slowly |
//! | `page_headers` | headers that all pages for people have |
//! | `budget` | memory that all bodies and responses may take |
//! | `read_slots` | concurrency limit of large reads |
//! | `coded` | a body that never changes, plain and compressed |
//! | `keyed` | semaphores of users and organizations |
//! | `stream` | a body that is streamed as it comes |

pub(crate) mod budget;
pub(crate) mod coded;
pub(crate) mod keyed;
pub(crate) mod paced_body;
pub(crate) mod page_headers;
pub(crate) mod read_slots;
pub(crate) mod render;
pub(crate) mod stream;

use crate::change::etag;
use crate::error::ApiError;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use stream::BodyStream;

/// Result of a handler.
pub(crate) type HandlerResult = Result<ApiResponse, ApiError>;

/// Response of a handler that succeeded.
#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    /// Status; `None`: the operation's own.
    pub(crate) status: Option<StatusCode>,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// Body that is streamed in the place of `body`.
    pub(crate) stream: Option<BodyStream>,
    /// `ETag`, if it is known without the body.
    pub(crate) tag: Option<String>,
    /// Coding of the body; `None` if there is no other.
    pub(crate) coding: Option<Coding>,
    /// Cookie to set or to remove.
    pub(crate) cookie: Option<HeaderValue>,
}

/// Content coding of a body that there is in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    Gzip,
}

impl ApiResponse {
    /// Creates a response with a JSON body.
    ///
    /// # Errors
    ///
    /// 500 if the value cannot be written as JSON.
    pub(crate) fn json<T: Serialize + ?Sized>(body: &T) -> HandlerResult {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, "an answer cannot be written as JSON");
            ApiError::internal()
        })?;
        Ok(Self {
            status: None,
            content_type: "application/json",
            body: body.into(),
            stream: None,
            tag: None,
            coding: None,
            cookie: None,
        })
    }

    /// Creates a response without a body.
    pub(crate) fn empty() -> Self {
        Self {
            status: None,
            content_type: "",
            body: Bytes::new(),
            stream: None,
            tag: None,
            coding: None,
            cookie: None,
        }
    }

    /// Creates a response whose body is streamed.
    pub(crate) fn streamed(content_type: &'static str, stream: BodyStream) -> Self {
        Self {
            content_type,
            stream: Some(stream),
            ..Self::empty()
        }
    }
}

/// Content of a response, for the document.
#[derive(Clone)]
pub(crate) enum ResponseSchema {
    /// No body.
    Empty,
    /// An HTML page.
    Html,
    /// A table as CSV.
    Csv,
    /// Stream in one of these media types.
    Stream(&'static [&'static str]),
    /// JSON of a type; the function adds its schema to the document, or refers to it there.
    Json(fn(&mut SchemaGenerator) -> Schema),
}

/// Conversion of a handler's return value into a response.
pub(crate) trait IntoApiResponse {
    /// Content of the response, for the document.
    fn schema() -> ResponseSchema;
    /// Converts the value into a response.
    ///
    /// # Errors
    ///
    /// 500 if the value cannot be written as JSON.
    fn into_api_response(self) -> HandlerResult;
}

impl<T: Serialize + JsonSchema> IntoApiResponse for T {
    fn schema() -> ResponseSchema {
        ResponseSchema::Json(|generator| generator.subschema_for::<T>())
    }

    fn into_api_response(self) -> HandlerResult {
        ApiResponse::json(&self)
    }
}

/// Value with a status that the handler chooses; the operation declares it by `also_responds_with`.
pub(crate) struct WithStatus<T> {
    pub(crate) status: StatusCode,
    pub(crate) body: T,
}

impl<T: Serialize + JsonSchema> IntoApiResponse for WithStatus<T> {
    fn schema() -> ResponseSchema {
        <T as IntoApiResponse>::schema()
    }

    fn into_api_response(self) -> HandlerResult {
        let mut response = ApiResponse::json(&self.body)?;
        response.status = Some(self.status);
        Ok(response)
    }
}

/// Return value with a cookie to set or to remove. A replay by `Idempotency-Key` has no cookie.
pub(crate) struct WithCookie<T> {
    pub(crate) cookie: Option<HeaderValue>,
    pub(crate) body: T,
}

impl<T: IntoApiResponse> IntoApiResponse for WithCookie<T> {
    fn schema() -> ResponseSchema {
        T::schema()
    }

    fn into_api_response(self) -> HandlerResult {
        let mut response = self.body.into_api_response()?;
        response.cookie = self.cookie;
        Ok(response)
    }
}

/// HTML page as the return value of a handler.
pub(crate) struct Html(pub(crate) ApiResponse);

impl IntoApiResponse for Html {
    fn schema() -> ResponseSchema {
        ResponseSchema::Html
    }

    fn into_api_response(self) -> HandlerResult {
        Ok(self.0)
    }
}

/// Table in CSV as the return value of a handler.
pub(crate) struct Csv(ApiResponse);

impl Csv {
    /// Creates the table of a text, whose first line has the names of the columns.
    pub(crate) fn of(table: String) -> Self {
        let body = Bytes::from(table);
        Self(ApiResponse {
            status: None,
            content_type: "text/csv; charset=utf-8; header=present",
            tag: Some(etag::of(&body)),
            stream: None,
            coding: None,
            cookie: None,
            body,
        })
    }
}

impl IntoApiResponse for Csv {
    fn schema() -> ResponseSchema {
        ResponseSchema::Csv
    }

    fn into_api_response(self) -> HandlerResult {
        Ok(self.0)
    }
}
