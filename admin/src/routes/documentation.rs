//! `/api/schema/` and `/api/docs/`: the OpenAPI document and its page.

use crate::change::etag;
use crate::error::ApiError;
use crate::openapi::docs;
use crate::operation::Operation;
use crate::response::{ApiResponse, HandlerResult, Html, IntoApiResponse, ResponseSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The document and its page. They are made of the complete table of operations, and are set
/// before the first request.
#[derive(Debug, Default)]
pub(crate) struct Published {
    document: OnceLock<ApiResponse>,
    page: OnceLock<ApiResponse>,
}

impl Published {
    /// Publishes a document and its page as bytes with their tags, made once for all requests.
    ///
    /// # Errors
    ///
    /// The page cannot be rendered.
    pub(crate) fn publish(&self, document: &Value) -> Result<(), String> {
        let page = docs::page(document)?;
        let mut response = ApiResponse::json(document).map_err(|_| "not JSON".to_owned())?;
        response.tag = Some(etag::of(&response.body));
        self.page.get_or_init(|| Html::of(page));
        self.document.get_or_init(|| response);
        Ok(())
    }
}

/// An OpenAPI document.
struct Document(ApiResponse);

impl IntoApiResponse for Document {
    fn schema() -> ResponseSchema {
        ResponseSchema::Json(|generator| generator.subschema_for::<Self>())
    }

    fn into_api_response(self) -> HandlerResult {
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

/// Operations of the document and its page.
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
