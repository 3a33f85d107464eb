//! Source files of a plugin.

use super::{PluginFamily, PluginView, Plugins};
use millrace_catalog::entities::plugin_source_files as files;
use millrace_catalog::key::sha256_hex;
use millrace_catalog::{CatalogError, ChangeError, UtcTime, Violation};
use millrace_rows::is_control;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};

/// Most files of a plugin.
pub const PLUGIN_FILES_MAX: usize = 200;
/// Most bytes of all files of a plugin, names and texts, as JSON: reading or changing the source
/// returns all of it as JSON, where a control character has six bytes.
pub const PLUGIN_SOURCE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Longest name of a file, in characters.
const FILENAME_CHARS_MAX: usize = 200;

/// Plugin with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFiles {
    /// Plugin as the organization sees it.
    pub view: PluginView,
    /// Files as (name, text), sorted by name.
    pub files: Vec<(String, String)>,
}

/// Change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Path such as `src/index.ts`.
    pub name: String,
    /// New text; `None` deletes the file.
    pub source: Option<String>,
}

/// Changed file in the activity log: hashes, as texts may hold secrets.
#[derive(Clone, Debug)]
pub(super) struct ChangedFile {
    pub(super) name: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Plugins<'_> {
    /// Reads a plugin with its files.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn files(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        id: i64,
    ) -> Result<Option<PluginFiles>, CatalogError> {
        let Some(view) = self.get(organization_id, family, id).await? else {
            return Ok(None);
        };
        let files = read(self.catalog.reader(), id)
            .await
            .map_err(|error| self.catalog.error(&error))?;
        Ok(Some(PluginFiles { view, files }))
    }
}

/// Returns true if a plugin has files.
pub(super) async fn any<C: ConnectionTrait>(db: &C, plugin_id: i64) -> Result<bool, DbErr> {
    let files = files::Entity::find().filter(files::Column::PluginId.eq(plugin_id));
    Ok(files.count(db).await? > 0)
}

pub(super) async fn read<C: ConnectionTrait>(
    db: &C,
    plugin_id: i64,
) -> Result<Vec<(String, String)>, DbErr> {
    let found = files::Entity::find()
        .filter(files::Column::PluginId.eq(plugin_id))
        .order_by_asc(files::Column::Filename)
        .all(db)
        .await?;
    let mut files: Vec<_> = found
        .into_iter()
        .map(|file| (file.filename, file.source))
        .collect();
    // PostgreSQL sorts by the database's language, SQLite by bytes.
    files.sort_unstable();
    Ok(files)
}

/// Writes and deletes the touched files of a plugin; `files` is the new source.
pub(super) async fn write(
    within: &DatabaseTransaction,
    plugin_id: i64,
    files: &[(String, String)],
    touched: &[ChangedFile],
    now: UtcTime,
) -> Result<(), DbErr> {
    let is_touched = |name: &str| touched.iter().any(|file| file.name == name);
    let gone = touched.iter().filter(|file| file.after.is_none());
    let gone: Vec<&str> = gone.map(|file| file.name.as_str()).collect();
    if !gone.is_empty() {
        files::Entity::delete_many()
            .filter(files::Column::PluginId.eq(plugin_id))
            .filter(files::Column::Filename.is_in(gone))
            .exec(within)
            .await?;
    }
    for (filename, source) in files.iter().filter(|(name, _)| is_touched(name)) {
        let row = files::ActiveModel {
            plugin_id: ActiveValue::Set(plugin_id),
            filename: ActiveValue::Set(filename.clone()),
            source: ActiveValue::Set(source.clone()),
            updated_at: ActiveValue::Set(now),
        };
        let mut replace = OnConflict::columns([files::Column::PluginId, files::Column::Filename]);
        replace.update_columns([files::Column::Source, files::Column::UpdatedAt]);
        files::Entity::insert(row)
            .on_conflict(replace)
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

/// Files that differ between two sources.
pub(super) fn differing(old: &[(String, String)], new: &[(String, String)]) -> Vec<ChangedFile> {
    let mut names: Vec<&String> = old.iter().chain(new).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let hash = |text: &str| format!("sha256:{}", sha256_hex(text.as_bytes()));
    let file = |name: &String| {
        let (before, after) = (text_of(old, name), text_of(new, name));
        (before != after).then(|| ChangedFile {
            name: name.clone(),
            before: before.map(hash),
            after: after.map(hash),
        })
    };
    names.into_iter().filter_map(file).collect()
}

fn text_of<'a>(files: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let file = files.iter().find(|(known, _)| known == name);
    file.map(|(_, text)| text.as_str())
}

/// Size of files as JSON, in bytes.
pub(super) fn bytes_of(files: &[(String, String)]) -> usize {
    let texts = files.iter().flat_map(|(name, text)| [name, text]);
    texts.map(|text| source_bytes(text)).sum()
}

/// Size of a file's name or text as JSON without quotes, by which it counts.
#[must_use]
pub fn source_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// Validates a file.
pub(super) fn check_file(name: &str, text: &str) -> Result<(), ChangeError> {
    let chars = name.chars().count();
    if !(1..=FILENAME_CHARS_MAX).contains(&chars) {
        let detail = format!("a file needs a name of 1 to {FILENAME_CHARS_MAX} characters");
        return Err(field_error(name, "invalid_input", detail));
    }
    if let Err(detail) = check_path(name) {
        return Err(field_error(name, "invalid_input", detail));
    }
    if text.contains('\0') {
        let detail = "a file may not hold null characters".to_owned();
        return Err(field_error(name, "invalid_input", detail));
    }
    Ok(())
}

/// Validates a path within the plugin, as it may be written to a folder one day.
fn check_path(name: &str) -> Result<(), String> {
    let advice = "give a path such as src/index.ts";
    if let Some(found) = name.chars().find(|c| is_control(*c)) {
        let code = u32::from(found);
        return Err(format!(
            "a file's name may not have U+{code:04X}, a control character; {advice}"
        ));
    }
    if name.contains('\\') {
        return Err(format!(
            "a file's name may not have a backslash; {advice}, with slashes"
        ));
    }
    if name.starts_with('/') {
        return Err(format!(
            "a file's name may not begin with a slash; {advice}, which begins in the plugin's folder"
        ));
    }
    match name
        .split('/')
        .find(|part| matches!(*part, "" | "." | ".."))
    {
        None => Ok(()),
        Some("") => Err(format!(
            "a file's name may not have an empty part, between two slashes or at its end; {advice}"
        )),
        Some(part) => Err(format!(
            "a file's name may not have the part {part:?}; {advice}"
        )),
    }
}

/// Error of a field or of a file.
pub(super) fn field_error(field: &str, code: &'static str, detail: String) -> ChangeError {
    ChangeError::Invalid(Box::new(Violation {
        field: Some(field.to_owned()),
        code,
        detail,
    }))
}

/// Moves an error to `field`, with `what` in front of its detail.
pub(super) fn field_error_from(field: &str, what: &str, error: ChangeError) -> ChangeError {
    match error.violation() {
        Some(violation) => {
            let detail = format!("{what}: {}", violation.detail);
            field_error(field, violation.code, detail)
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_text_is_its_length_as_json() {
        let mut table: Vec<String> = (0..0x100)
            .filter_map(char::from_u32)
            .map(String::from)
            .collect();
        table.extend(["", "a\nb\u{1}", "\u{2028}\u{1d11e}\u{10ffff}"].map(str::to_owned));
        for text in table {
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(source_bytes(&text), json.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn file_names_must_be_paths_within_the_plugin() {
        let table = [
            ("index.ts", true),
            ("src/index.ts", true),
            ("a/b/c.d/.hidden", true),
            ("...", true),
            ("a b/\u{e4}\u{200d}.ts", true),
            ("", false),
            ("../../x.ts", false),
            ("a/../x.ts", false),
            ("..", false),
            (".", false),
            ("./index.ts", false),
            ("/etc/passwd", false),
            ("/", false),
            ("a//b.ts", false),
            ("a/", false),
            ("..\\x.ts", false),
            ("C:\\x.ts", false),
            ("a\nb.ts", false),
            ("a\0", false),
            ("a\u{202e}st.xe", false),
        ];
        for (name, is_taken) in table {
            let checked = check_file(name, "");
            assert_eq!(checked.is_ok(), is_taken, "{name:?}");
            let Some(violation) = checked.err().and_then(|error| error.violation()) else {
                continue;
            };
            assert_eq!(violation.field.as_deref(), Some(name));
        }
    }
}
