//! What handlers answer with when all went well; in `response` what is made of it, in `sent` how it
//! goes out, in `budget` what all answers may have of the memory, in `turns` who may ask for what is large.

pub(crate) mod budget;
mod per_user;
pub(crate) mod response;
pub(crate) mod sent;
pub(crate) mod turns;

use crate::change::etag;
use crate::error::ApiError;
use crate::operation::Outcome;
use bytes::Bytes;
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

/// The body of a success.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// `None`: the operation's own.
    pub(crate) status: Option<StatusCode>,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// The version, where it is known without looking at the body.
    pub(crate) tag: Option<String>,
}

impl Answer {
    /// As JSON.
    ///
    /// # Errors
    ///
    /// 500 for what cannot be written as JSON.
    pub(crate) fn json<T: Serialize + ?Sized>(body: &T) -> Outcome {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, "an answer cannot be written as JSON");
            ApiError::internal()
        })?;
        Ok(Self {
            status: None,
            content_type: "application/json",
            body: body.into(),
            tag: None,
        })
    }

    /// Without a body.
    pub(crate) fn empty() -> Self {
        Self {
            status: None,
            content_type: "",
            body: Bytes::new(),
            tag: None,
        }
    }
}

/// What the document says of an answer.
#[derive(Clone)]
pub(crate) enum AnswerSchema {
    /// No body.
    Empty,
    /// A page for people.
    Html,
    /// JSON of a type: adds it to the document, or points to it there.
    Json(fn(&mut SchemaGenerator) -> Schema),
}

/// What a handler may return.
pub(crate) trait IntoAnswer {
    /// What the document says of it.
    fn schema() -> AnswerSchema;
    /// As bytes.
    ///
    /// # Errors
    ///
    /// 500 for what cannot be written as JSON.
    fn into_answer(self) -> Outcome;
}

impl<T: Serialize + JsonSchema> IntoAnswer for T {
    fn schema() -> AnswerSchema {
        AnswerSchema::Json(|generator| generator.subschema_for::<T>())
    }

    fn into_answer(self) -> Outcome {
        Answer::json(&self)
    }
}

/// An answer whose status the handler chooses; the operation says so by `also_answers`.
pub(crate) struct WithStatus<T> {
    pub(crate) status: StatusCode,
    pub(crate) body: T,
}

impl<T: Serialize + JsonSchema> IntoAnswer for WithStatus<T> {
    fn schema() -> AnswerSchema {
        <T as IntoAnswer>::schema()
    }

    fn into_answer(self) -> Outcome {
        let mut answer = Answer::json(&self.body)?;
        answer.status = Some(self.status);
        Ok(answer)
    }
}

/// A page for people, ready to be sent.
pub(crate) struct Html(pub(crate) Answer);

impl Html {
    /// Of a page's text.
    pub(crate) fn of(page: String) -> Answer {
        let body = Bytes::from(page);
        Answer {
            status: None,
            content_type: "text/html; charset=utf-8",
            tag: Some(etag::of(&body)),
            body,
        }
    }
}

impl IntoAnswer for Html {
    fn schema() -> AnswerSchema {
        AnswerSchema::Html
    }

    fn into_answer(self) -> Outcome {
        Ok(self.0)
    }
}
