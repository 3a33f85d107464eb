//! SQL that all warehouses share: literals and MERGE.

use crate::destination::table::Layout;

/// Quotes a text as a literal; backslashes begin escapes in it.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// MERGE of a staging table into its table by key, each row once.
pub(crate) struct Merge<'a> {
    /// Layout of both tables.
    pub(crate) layout: &'static Layout,
    /// Table that rows go to.
    pub(crate) target: &'a str,
    /// Staging table.
    pub(crate) stage: &'a str,
    /// Formats the name of a column.
    pub(crate) name: fn(&str) -> String,
    /// Prefix of a column that is set.
    pub(crate) before_set: &'static str,
    /// Clause that QUALIFY requires before it.
    pub(crate) before_qualify: &'static str,
    /// Column that the layout does not have, and its value.
    pub(crate) extra_column: Option<(&'static str, &'static str)>,
}

impl Merge<'_> {
    /// Text of the statement.
    pub(crate) fn sql(&self) -> String {
        let Self {
            layout,
            target,
            stage,
            name,
            before_set,
            before_qualify,
            extra_column,
        } = self;
        let key: Vec<String> = layout.key.iter().map(|it| name(it)).collect();
        let is_same = key.iter().map(|it| format!("kept.{it} = come.{it}"));
        let is_same = is_same.collect::<Vec<_>>().join(" AND ");
        let others = layout.columns.iter().filter(|it| !layout.is_key(**it));
        let set = others.map(|column| format!("{before_set}{0} = come.{0}", name(column.name)));
        let extra_column = extra_column.map(|(column, value)| (name(column), value));
        let set = set.chain(
            extra_column
                .iter()
                .map(|(column, value)| format!("{column} = {value}")),
        );
        let set = set.collect::<Vec<_>>().join(", ");
        let mut names = layout.joined(|column| name(column.name));
        let mut values = layout.joined(|column| format!("come.{}", name(column.name)));
        if let Some((column, value)) = &extra_column {
            names += &format!(", {column}");
            values += &format!(", {value}");
        }
        format!(
            "MERGE INTO {target} AS kept USING (SELECT * FROM {stage} {before_qualify}QUALIFY \
             ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {newest} DESC) = 1) AS come \
             ON {is_same} WHEN MATCHED{is_newer} THEN UPDATE SET {set} \
             WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})",
            key = key.join(", "),
            newest = name(layout.newest),
            is_newer = self.is_newer(),
        )
    }

    /// Condition that leaves out rows that are older than the stored ones.
    fn is_newer(&self) -> String {
        let versions = self.layout.versions.iter().rev();
        let is_older = versions.fold(None, |behind: Option<String>, version| {
            let name = (self.name)(version);
            let is_lower = format!("come.{name} < kept.{name}");
            Some(match behind {
                None => is_lower,
                Some(behind) => format!("{is_lower} OR (come.{name} = kept.{name} AND {behind})"),
            })
        });
        // A version column that the customer added later has no value yet.
        is_older.map_or_else(String::new, |is_older| {
            format!(" AND NOT COALESCE({is_older}, FALSE)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Merge;
    use crate::destination::table::PERSONS;

    #[test]
    fn persons_are_merged_by_project_and_id_and_older_ones_change_nothing() {
        let merge = Merge {
            layout: &PERSONS,
            target: "t",
            stage: "s",
            name: str::to_uppercase,
            before_set: "",
            before_qualify: "",
            extra_column: None,
        };
        let names = "TEAM_ID, DISTINCT_ID, PERSON_ID, PROPERTIES, PERSON_DISTINCT_ID_VERSION, \
             PERSON_VERSION, CREATED_AT";
        let values = format!("come.{}", names.replace(", ", ", come."));
        let (id, person) = ("PERSON_DISTINCT_ID_VERSION", "PERSON_VERSION");
        let expected = format!(
            "MERGE INTO t AS kept USING (SELECT * FROM s QUALIFY ROW_NUMBER() OVER \
             (PARTITION BY TEAM_ID, DISTINCT_ID ORDER BY PERSON_VERSION DESC) = 1) AS come \
             ON kept.TEAM_ID = come.TEAM_ID AND kept.DISTINCT_ID = come.DISTINCT_ID \
             WHEN MATCHED AND NOT COALESCE(come.{id} < kept.{id} OR (come.{id} = kept.{id} \
             AND come.{person} < kept.{person}), FALSE) THEN UPDATE SET \
             PERSON_ID = come.PERSON_ID, PROPERTIES = come.PROPERTIES, {id} = come.{id}, \
             {person} = come.{person}, CREATED_AT = come.CREATED_AT \
             WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        );
        assert_eq!(merge.sql(), expected);
    }
}
