//! `/api/schema/` and `/api/docs/`: the API about itself.

use crate::answer::{Answer, AnswerSchema, Html, IntoAnswer};
use crate::change::etag;
use crate::error::ApiError;
use crate::openapi::docs;
use crate::operation::{Operation, Outcome};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The document and its page. Set once the table is complete, of which they are made; until then
/// nobody asks.
#[derive(Debug, Default)]
pub(crate) struct Published {
    document: OnceLock<Answer>,
    page: OnceLock<Answer>,
}

impl Published {
    /// Publishes a document: as bytes with their tags, as anyone may ask for them any number of
    /// times.
    ///
    /// # Errors
    ///
    /// The page cannot be written.
    pub(crate) fn publish(&self, document: &Value) -> Result<(), String> {
        let page = docs::page(document)?;
        let mut answer = Answer::json(document).map_err(|_| "not JSON".to_owned())?;
        answer.tag = Some(etag::of(&answer.body));
        self.page.get_or_init(|| Html::of(page));
        self.document.get_or_init(|| answer);
        Ok(())
    }
}

/// An OpenAPI document.
struct Document(Answer);

impl IntoAnswer for Document {
    fn schema() -> AnswerSchema {
        AnswerSchema::Json(|generator| generator.subschema_for::<Self>())
    }

    fn into_answer(self) -> Outcome {
        Ok(self.0)
    }
}

impl JsonSchema for Document {
    fn schema_name() -> Cow<'static, str> {
        "Document".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "required": ["openapi", "info", "paths"] })
    }
}

/// These two rows of the table.
pub(crate) fn operations(published: &Arc<Published>) -> Vec<Operation> {
    let (of_document, of_page) = (published.clone(), published.clone());
    let document = move |_| {
        let document = of_document.document.get().cloned();
        async move { document.map(Document).ok_or_else(ApiError::unavailable) }
    };
    let page = move |_| {
        let page = of_page.page.get().cloned();
        async move { page.map(Html).ok_or_else(ApiError::unavailable) }
    };
    vec![
        Operation::get("/api/schema/", document)
            .about("Read this document")
            .open(),
        Operation::get("/api/docs/", page)
            .about("Read this document as a page")
            .open(),
    ]
}
