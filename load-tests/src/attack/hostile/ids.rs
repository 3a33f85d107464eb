//! Ids of existing records, read by their owner: a made-up id would only ever be answered with 404.

use crate::attack::tenants::Tenant;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A list is read again once in this many times, as records come and go.
const ASK_AGAIN: u32 = 20;
/// One id in this many is made up.
const MADE_UP: u32 = 4;
/// Path below which a project's id is what an organization's is elsewhere: it says whose records
/// the rest of the path means.
const PROJECTS: &str = "/api/projects/";
/// Name of the parameter for the id of a query.
const QUERY_ID: &str = "query_id";

/// Ids by the path of their list.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeMap<String, Vec<String>>);

/// A path template filled with ids.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) path: String,
    /// True if each record that the path names besides its organization or project exists.
    pub(super) is_there: bool,
    /// Id of the owner's long query, if the path names it: it exists for as long as it runs.
    pub(super) query_id: Option<String>,
}

impl Ids {
    /// Fills a path template in one tenant's organization or project with ids of `owner`'s records,
    /// who may be another tenant.
    pub(super) async fn fill(
        &mut self,
        template: &str,
        of: &Tenant,
        owner: &Tenant,
        rng: &mut StdRng,
    ) -> Filled {
        // The path so far, read by its owner, is the list of the next id.
        let (mut path, mut list) = (String::new(), String::new());
        let (mut is_there, mut query_id) = (true, None);
        for part in template.split_inclusive('/') {
            let name = part.trim_matches(['{', '}', '/']);
            let (put, asked) = match name {
                "organization_id" => (of.organization.clone(), owner.organization.clone()),
                "project_id" if list == PROJECTS => {
                    (of.project_id.to_string(), owner.project_id.to_string())
                }
                "project_id" => (owner.project_id.to_string(), owner.project_id.to_string()),
                _ if !part.starts_with('{') => {
                    path.push_str(part);
                    list.push_str(part);
                    continue;
                }
                _ => {
                    let known = self.one(owner, &list, name, rng).await;
                    is_there &= known.is_some();
                    if name == QUERY_ID {
                        query_id.clone_from(&known);
                    }
                    let id = known.unwrap_or_else(|| made_up(rng));
                    (id.clone(), id)
                }
            };
            path.push_str(&format!("{put}/"));
            list.push_str(&format!("{asked}/"));
        }
        Filled {
            path,
            is_there,
            query_id,
        }
    }

    /// A random id of a list; `None` if the list is empty, and now and then in any case.
    async fn one(
        &mut self,
        owner: &Tenant,
        list: &str,
        name: &str,
        rng: &mut StdRng,
    ) -> Option<String> {
        if rng.random_ratio(1, MADE_UP) {
            return None;
        }
        // No list has the ids of queries.
        if name == QUERY_ID {
            return owner.long_query.id();
        }
        let is_empty = self.0.get(list).is_none_or(Vec::is_empty);
        if is_empty || rng.random_ratio(1, ASK_AGAIN) {
            let path = format!("{list}?limit=20");
            let asked = owner.ask_at("GET", &path, &Value::Null).await;
            // A list that was not read this time may be readable the next.
            if asked.status() == 200 {
                self.0.insert(list.to_owned(), found(&asked.json(), name));
            }
        }
        let known = self.0.get(list)?;
        let at = rng.random_range(0..known.len().max(1));
        known.get(at).cloned()
    }
}

/// Ids on a page of a list.
fn found(page: &Value, name: &str) -> Vec<String> {
    let pointer = match name {
        "user_uuid" => "/user/uuid",
        _ => "/id",
    };
    let results = page.pointer("/results").and_then(Value::as_array);
    let ids = results
        .into_iter()
        .flatten()
        .filter_map(|it| it.pointer(pointer));
    ids.filter_map(|id| match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
    .collect()
}

/// A made-up id.
fn made_up(rng: &mut StdRng) -> String {
    match rng.random_range(0..4) {
        0 => "@current".to_owned(),
        1 => rng.random_range(0..100).to_string(),
        2 => "%00%0a..%2f".to_owned(),
        _ => Uuid::from_u128(rng.random()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_of_a_page_are_texts_numbers_or_user_uuids() {
        let page =
            json!({"results": [{"id": "a", "user": {"uuid": "u"}}, {"id": 7}, {"name": "x"}]});
        assert_eq!(found(&page, "id"), ["a", "7"]);
        assert_eq!(found(&page, "user_uuid"), ["u"]);
        assert!(found(&Value::Null, "id").is_empty());
    }
}
