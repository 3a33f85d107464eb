//! A section that was damaged in the log: all of it is kept, and what can be read is sent.

use super::{Context, Verdict, keep_trying, poison};
use crate::ship::deliver::{Delivery, Settled};
use crate::ship::plan::UnitId;
use crate::ship::proof::Answers;
use crate::ship::retries::Standing;
use crate::ship::salvage::{Salvaged, salvage};
use crate::ship::sink::Sink;
use crate::ship::sought::Sought;
use crate::ship::unit::Unit;
use bytes::Bytes;
use metrics::counter;
use millrace_log::FrameSection;
use millrace_log::block::Compressor;
use std::sync::Arc;

impl<K: Sink> Context<K> {
    /// Keeps the only section of a unit as it lies in the log, then sends the rows that can be read. First the
    /// one, so that a crash in between costs nothing: whoever comes back asks for these rows, and does the same.
    pub(super) async fn lost(
        &self,
        id: UnitId,
        unit: &Arc<Unit<FrameSection>>,
        reason: String,
    ) -> Verdict {
        let [section] = unit.sections.as_slice() else {
            return Verdict::Refused;
        };
        let blocks = self.whole(unit).await;
        let salvaged = match unit.range {
            None => salvaged(unit, blocks.concat()).await,
            Some(_) => None,
        };
        let rows = salvaged.as_ref().map_or(0, |it| it.rows);
        let (place, all) = (section.place, unit.rows());
        let reason = format!("{reason}; {rows} of {all} rows can be read, and are sent");
        let poison = poison(unit, place, &blocks, None, reason);
        let path = self.set_aside(&poison).await;
        tracing::error!(
            rows = all,
            salvaged = rows,
            place = %place,
            "rows are damaged in the log; their blocks are kept in {}: {}",
            path.display(),
            poison.reason
        );
        let sent = match salvaged {
            Some(salvaged) => match self.send_salvaged(id, unit, &salvaged).await {
                Ok(true) => rows,
                Ok(false) => 0,
                Err(verdict) => return verdict,
            },
            None => 0,
        };
        counter!("millrace_log_damaged_total", "lane" => self.lane).increment(1);
        counter!("millrace_insert_rows_salvaged_total", "lane" => self.lane).increment(sent);
        counter!("millrace_insert_rows_set_aside_total", "lane" => self.lane)
            .increment(all.saturating_sub(sent));
        Verdict::Settled
    }

    /// Sends rows, unless they are there already. False if ClickHouse refuses them: they are kept. An error if
    /// the unit is to be recorded anew first: after a crash nobody would know another token.
    async fn send_salvaged(
        &self,
        id: UnitId,
        unit: &Unit<FrameSection>,
        salvaged: &Salvaged,
    ) -> Result<bool, Verdict> {
        let mut packed = Vec::new();
        Compressor::new().compress_into(&salvaged.bytes, &mut packed);
        let body = vec![Bytes::from(packed)];
        // The number is of earlier versions, which counted there.
        let token = format!("{}-salvaged-0", unit.token(&self.prefix));
        let mut standing = Standing::Fresh;
        loop {
            let delivery = Delivery {
                id,
                retries: &self.retries,
                lane: self.lane,
                scope: &self.node,
                insert_target: &unit.key.insert_target,
                table: unit.key.table(),
                month: unit.key.month,
                token: &token,
                sought: Sought::rows(salvaged.keys.clone(), &[]),
                body: &body,
                run: unit.run,
                // By a start before this one.
                in_doubt: true,
                answers: Answers::default(),
                stores: &self.stores,
                standing,
            };
            match delivery.settle(&self.sink).await {
                Settled::Stored => return Ok(true),
                Settled::Absent => return Err(Verdict::Absent),
                Settled::Restarted => return Err(Verdict::Restarted),
                Settled::Unproven(_) => standing = Standing::Last,
                Settled::Refused(error) | Settled::Unknowable(error) => {
                    tracing::error!(
                        token,
                        "ClickHouse refuses rows of a damaged section: {error}"
                    );
                    return Ok(false);
                }
                Settled::Parted | Settled::Lost(_) => return Ok(false),
            }
        }
    }
}

async fn salvaged(unit: &Arc<Unit<FrameSection>>, blocks: Vec<u8>) -> Option<Salvaged> {
    let (unit, blocks) = (Arc::clone(unit), Arc::new(blocks));
    keep_trying("damaged rows cannot be looked at", move || {
        let section = unit.sections.first();
        Ok(section.and_then(|section| salvage(&unit.key, section, &blocks)))
    })
    .await
}
