//! Replicates changes of the catalog to ClickHouse.

use crate::failure::Failure;
use crate::state::{ChangedGroup, ChangedId, ChangedPerson, PersonStore};
use bytes::Bytes;
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, PersonTable};
use millrace_rows::rowbinary::{put_bool, put_bytes, put_i64, put_uuid};

/// Rows that are read from the catalog at once; each may have half a megabyte of properties.
const PAGE_ROWS: u64 = 500;
/// Bytes from which on an insert is sent.
const INSERT_BYTES: usize = 8 << 20;

/// Copies what later steps than `copied` changed. Persons go before their ids, so that no id is
/// seen whose person is not there. After each page `on_page` is called.
pub(crate) async fn replicate(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    copied: i64,
    on_page: impl Fn(),
) -> Result<(), Failure> {
    let mut rows = PendingRows::to(clickhouse, PersonTable::Persons);
    let mut last = None;
    loop {
        let page = PersonStore::new(catalog).changed_persons(copied, last.as_ref(), PAGE_ROWS);
        let page = page.await?;
        page.iter().for_each(|it| put_person(&mut rows.bytes, it));
        if !rows.send_after(page.len()).await? {
            break;
        }
        on_page();
        last = page.into_iter().next_back();
    }
    let mut rows = PendingRows::to(clickhouse, PersonTable::DistinctIds);
    let mut last = None;
    loop {
        let page = PersonStore::new(catalog).changed_ids(copied, last.as_ref(), PAGE_ROWS);
        let page = page.await?;
        page.iter().for_each(|it| put_id(&mut rows.bytes, it));
        if !rows.send_after(page.len()).await? {
            break;
        }
        on_page();
        last = page.into_iter().next_back();
    }
    let mut rows = PendingRows::to(clickhouse, PersonTable::Groups);
    let mut last = None;
    loop {
        let page = PersonStore::new(catalog).changed_groups(copied, last.as_ref(), PAGE_ROWS);
        let page = page.await?;
        page.iter().for_each(|it| put_group(&mut rows.bytes, it));
        if !rows.send_after(page.len()).await? {
            break;
        }
        on_page();
        last = page.into_iter().next_back();
    }
    Ok(())
}

/// Rows collected for an insert into a table.
struct PendingRows<'a> {
    clickhouse: &'a ClickHouse,
    table: PersonTable,
    bytes: Vec<u8>,
}

impl<'a> PendingRows<'a> {
    const fn to(clickhouse: &'a ClickHouse, table: PersonTable) -> Self {
        Self {
            clickhouse,
            table,
            bytes: Vec::new(),
        }
    }

    /// Sends the collected rows after the last page, or when there are enough of them. Returns true
    /// if another page may follow one of `page_rows` rows.
    async fn send_after(&mut self, page_rows: usize) -> Result<bool, Failure> {
        let is_last = (page_rows as u64) < PAGE_ROWS;
        let is_due = is_last || self.bytes.len() >= INSERT_BYTES;
        if is_due && !self.bytes.is_empty() {
            let rows = Bytes::from(std::mem::take(&mut self.bytes));
            self.clickhouse.copy_persons(self.table, rows).await?;
        }
        Ok(!is_last)
    }
}

fn put_person(out: &mut Vec<u8>, person: &ChangedPerson) {
    put_i64(out, person.team_id);
    put_uuid(out, person.id);
    put_i64(out, person.created_at.0);
    put_bytes(out, person.properties.as_bytes());
    put_bool(out, person.is_identified);
    put_bool(out, person.is_deleted);
    put_i64(out, person.version);
}

fn put_id(out: &mut Vec<u8>, id: &ChangedId) {
    put_i64(out, id.team_id);
    put_bytes(out, id.distinct_id.as_bytes());
    put_uuid(out, id.person_id);
    put_i64(out, id.version);
}

fn put_group(out: &mut Vec<u8>, group: &ChangedGroup) {
    put_i64(out, group.team_id);
    put_bytes(out, group.group_type.as_bytes());
    put_bytes(out, group.group_key.as_bytes());
    put_i64(out, group.created_at.0);
    put_bytes(out, group.properties.as_bytes());
    put_i64(out, group.version);
}
