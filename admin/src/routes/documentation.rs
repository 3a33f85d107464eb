//! `/api/schema/` and `/api/docs/`: the OpenAPI document and its page.

use crate::context::Context;
use crate::docs_assets;
use crate::error::ApiError;
use crate::openapi::page;
use crate::operation::Operation;
use crate::response::coded::CodedBody;
use crate::response::{ApiResponse, HandlerResult, Html, IntoApiResponse, ResponseSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The document and its page. They are made of the complete table of operations, and are set
/// before the first request.
#[derive(Debug, Default)]
pub(crate) struct Published {
    document: OnceLock<CodedBody>,
    page: OnceLock<CodedBody>,
}

impl Published {
    /// Publishes a document and its page as bytes with their tags, made once for all requests.
    ///
    /// # Errors
    ///
    /// The page cannot be rendered.
    pub(crate) fn publish(&self, document: &Value) -> Result<(), String> {
        let page = page::page(document, docs_assets::addresses())?;
        let json = ApiResponse::json(document).map_err(|_| "not JSON".to_owned())?;
        let html = "text/html; charset=utf-8";
        self.page.get_or_init(|| CodedBody::new(html, page.into()));
        self.document
            .get_or_init(|| CodedBody::new(json.content_type, json.body));
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
    let document = move |context: Context| {
        let document = coded(&of_document.document, &context);
        async move { document.map(Document) }
    };
    let page = move |context: Context| {
        let page = coded(&of_page.page, &context);
        async move { page.map(Html) }
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

/// Body in the coding that the client prefers.
///
/// # Errors
///
/// 503 before the document is published.
fn coded(body: &OnceLock<CodedBody>, context: &Context) -> HandlerResult {
    let body = body.get().ok_or_else(ApiError::unavailable)?;
    Ok(body.response(&context.request.headers))
}
