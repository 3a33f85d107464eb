//! Fields of the page's types, and their types in a few words.

use serde_json::Value;

pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) is_required: bool,
    pub(super) description: String,
    /// Anchor of more details on the page.
    pub(super) more: Option<String>,
}

pub(super) fn body(document: &Value, schema: &Value) -> Vec<Field> {
    let is_required = |name: &str| items(schema, "/required").any(|required| required == name);
    let fields = fields(schema, "/properties").map(|(name, property)| Field {
        name: name.clone(),
        kind: kind(document, property),
        is_required: is_required(name),
        description: about(document, property),
        more: anchor(document, property),
    });
    fields.collect()
}

/// Description of a field, or else of its type.
fn about(document: &Value, property: &Value) -> String {
    let own = text(property, "/description");
    let mut about = match own.is_empty() {
        true => text(resolved(document, property), "/description"),
        false => own,
    };
    if property.get("writeOnly") == Some(&Value::Bool(true)) {
        about += " Never answered.";
    }
    about.replace('`', "")
}

/// Type of a field, in a few words.
pub(super) fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    if let Some(words) = words(document, schema) {
        return words;
    }
    let alternatives: Vec<String> = ["/anyOf", "/oneOf"]
        .iter()
        .flat_map(|place| items(schema, place).map(|one| kind(document, one)))
        .collect();
    if !alternatives.is_empty() {
        return alternatives.join(" or ");
    }
    let choices: Vec<String> = items(schema, "/enum")
        .chain(schema.get("const"))
        .map(Value::to_string)
        .collect();
    if !choices.is_empty() {
        return choices.join(", ");
    }
    let types = match schema.get("type") {
        Some(Value::Array(types)) => {
            let types = types.iter().filter_map(Value::as_str);
            types.collect::<Vec<_>>().join(" or ")
        }
        Some(one) => text(one, ""),
        None => "anything".to_owned(),
    };
    let limits = [
        ("format", ""),
        ("maxLength", "at most "),
        ("minimum", "from "),
        ("maximum", "to "),
    ];
    let limits = limits.iter().filter_map(|(name, word)| {
        let limit = schema.get(name)?;
        let is_machine = matches!(limit.as_str(), Some("int16" | "int32" | "int64" | "uint32"));
        let is_range = limit
            .as_i64()
            .is_some_and(|limit| limit.unsigned_abs() > u64::from(u32::MAX));
        let limit = limit
            .as_str()
            .map_or_else(|| limit.to_string(), str::to_owned);
        (!is_machine && !is_range).then(|| format!(", {word}{limit}"))
    });
    types + &limits.collect::<String>()
}

pub(super) fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

pub(super) fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

pub(super) fn fields<'v>(
    value: &'v Value,
    pointer: &str,
) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

pub(super) fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

pub(super) fn paragraphs(text: &str) -> Vec<String> {
    let lines = text.split('\n').map(|line| line.replace('`', ""));
    lines.filter(|line| !line.is_empty()).collect()
}

/// Anchor of a type with several variants; `None` for other types.
fn anchor(document: &Value, schema: &Value) -> Option<String> {
    let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
    let is_one = resolved(document, schema).get("discriminator").is_some();
    is_one.then(|| name.to_owned())
}

/// Description of a type with several variants, in a few words; `None` for other types.
fn words(document: &Value, schema: &Value) -> Option<String> {
    let alternatives: Vec<&Value> = items(schema, "/oneOf").collect();
    let is_kind = |alternative: &&Value| {
        let alternative = resolved(document, alternative);
        kind(document, alternative) == "object"
    };
    (!alternatives.is_empty() && alternatives.iter().all(is_kind))
        .then(|| "object, by its type".to_owned())
}
