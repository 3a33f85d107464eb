//! Sends refused events again: each is reached, whatever becomes of those before it.
//!
//! What a request brings in is noted before the next one is sent, so a resend that is killed leaves the events of one
//! request at most that are stored and not noted. The next resend settles that one first (`on_its_way`), whatever it is
//! told to set.

use super::exchange::{Answer, Refusal, Sender};
use super::mended::Mended;
use super::on_its_way::{Left, OnItsWay};
use super::raws::{self, Group, PIECE_EVENTS_MAX, RAW_BYTES_MAX};
use super::{Which, find, more, why_none};
use crate::commands::{Given, counted};
use crate::config::Config;
use crate::open;
use anyhow::{Context, anyhow, bail, ensure};
use millrace_clickhouse::RejectedEvent;
use millrace_rows::{Clock, SystemClock, TeamId, shown};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Events of a request: as many as an answer names when all are refused.
const REQUEST_EVENTS_MAX: usize = 100;
/// About how many bytes a request of several events has at most; a larger event goes alone.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Events that a command takes without `--limit`.
const LIMIT_DEFAULT: usize = 100;
/// Options that say which events, but for the project and the time.
const OF_ONE_EVENT: [&str; 7] = [
    "code",
    "request_id",
    "index",
    "unsent",
    "all",
    "rows_max",
    "set",
];

/// Settles what an earlier resend left, sends events again, tells what became of them, and how to go on.
///
/// # Errors
/// When an event is not sent.
pub(super) fn run(
    config: &Config,
    which: &Which,
    set: &[(String, Value)],
    given: &Given,
) -> anyhow::Result<()> {
    let sender = Sender::new(&open::running(config)?.ingest_url);
    let mut events = find(config, which)?;
    let mut on_its_way = OnItsWay::take(&config.data_dir)?;
    if let Some(left) = on_its_way.left()? {
        settle(config, &sender, &left, on_its_way.path())?;
        on_its_way.settled()?;
        events = find(config, which)?;
    }
    if events.is_empty() {
        crate::print(&why_none(config, which, given)?);
        return Ok(());
    }
    let mut resend = Resend {
        config,
        sender,
        on_its_way,
        sent: 0,
        refused: Vec::new(),
        unsendable: 0,
    };
    let ended = resend.all(&events, set);
    let untried = events
        .len()
        .saturating_sub(resend.sent + resend.refused.len() + resend.unsendable);
    crate::print(&resend.totals(untried));
    more(config, which, events.len())?;
    if let Err(error) = ended {
        let again = given.command("rejected resend", &["unsent"]);
        return Err(error.context(format!(
            "the resend ended before its end; go on with:\n  {again}\nIt ended because"
        )));
    }
    resend.judge(given)
}

/// Sends a request that an earlier resend left as it was sent then, and notes what is stored.
///
/// # Errors
/// When there is no answer that says what became of it; it is still left then.
fn settle(config: &Config, sender: &Sender, left: &Left, path: &Path) -> anyhow::Result<()> {
    let events = counted(left.events.len() as u64, "event");
    let answer = match project_key(config, left.team_id)? {
        Some(key) => sender.send(&key, left.historical_migration, &left.mended()),
        None => Ok(Answer::Never(no_key(left.team_id))),
    };
    let why = match answer {
        Ok(Answer::Taken) => {
            record(config, &left.events)?;
            crate::print(&format!(
                "{events} that an earlier resend left on the way: sent, as they were then."
            ));
            return Ok(());
        }
        // Of such a request nothing is stored, so that they are mended as it is said now.
        Ok(Answer::Refused(_) | Answer::Whole(_)) => return Ok(()),
        Ok(Answer::Never(why)) => anyhow!(why),
        Ok(Answer::Lost(error)) | Err(error) => error,
    };
    Err(why.context(format!(
        "an earlier resend left {events} on the way, and nothing else is sent before it is known whether they are stored: \
         run the same command again when the server takes them. To send them anew without knowing, remove {}. They are \
         not known because",
        path.display()
    )))
}

/// Records that events were accepted.
fn record(config: &Config, events: &[RejectedEvent]) -> anyhow::Result<()> {
    let clickhouse = open::clickhouse(config)?;
    open::block_on(async {
        let recorded = clickhouse.record_resent(events, SystemClock.now()).await;
        recorded
            .map_err(|error| open::explained(config, error))
            .context(format!(
                "{} of the last request cannot be noted as sent, which they are; the next resend does it",
                counted(events.len() as u64, "event")
            ))
    })
}

fn no_key(team_id: i64) -> String {
    format!("project {team_id} has no key; `millrace keys create --team-id {team_id}` gives it one")
}

/// A resend that is under way.
struct Resend<'a> {
    config: &'a Config,
    sender: Sender,
    on_its_way: OnItsWay,
    sent: usize,
    refused: Vec<&'a RejectedEvent>,
    unsendable: usize,
}

impl<'a> Resend<'a> {
    /// Sends the events of one project after the other's.
    fn all(&mut self, events: &'a [RejectedEvent], set: &[(String, Value)]) -> anyhow::Result<()> {
        let mut projects: BTreeMap<_, Vec<&RejectedEvent>> = BTreeMap::new();
        for event in events {
            let key = (event.team_id, event.historical_migration);
            projects.entry(key).or_default().push(event);
        }
        for ((team_id, is_historical), events) in projects {
            let Some(key) = project_key(self.config, team_id)? else {
                let why = no_key(team_id);
                events.iter().for_each(|event| self.cannot(event, &why));
                continue;
            };
            let mut never: Option<String> = None;
            for piece in events.chunks(PIECE_EVENTS_MAX) {
                for group in raws::groups(self.config, piece)? {
                    if let Some(why) = &never {
                        group.events.iter().for_each(|it| self.cannot(it, why));
                        continue;
                    }
                    let mended = self.mended(&group, set)?;
                    never = self.project(&key, (team_id, is_historical), mended)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the events of a group and mends them; names those that cannot be sent.
    fn mended(
        &mut self,
        group: &Group<'a>,
        set: &[(String, Value)],
    ) -> anyhow::Result<Vec<Mended<'a>>> {
        if group.bytes > RAW_BYTES_MAX {
            let bytes = counted(group.bytes, "byte");
            let why = format!("it has {bytes}; no request takes that");
            group.events.iter().for_each(|it| self.cannot(it, &why));
            return Ok(Vec::new());
        }
        let raws = raws::read(self.config, &group.events)?;
        let mut mended = Vec::new();
        for (&event, raw) in group.events.iter().zip(&raws) {
            match Mended::new(event, raw, set) {
                Ok(event) => mended.push(event),
                Err(error) => self.cannot(event, &error.to_string()),
            }
        }
        Ok(mended)
    }

    /// Sends events of a project, in requests that are cut smaller where one event keeps the others back. Gives why no
    /// more of the project are taken, if so.
    fn project(
        &mut self,
        key: &str,
        of: (i64, bool),
        events: Vec<Mended<'a>>,
    ) -> anyhow::Result<Option<String>> {
        let mut requests = requests(events);
        while let Some(mut request) = requests.pop() {
            match self.exchange(key, of, &request)? {
                Answer::Taken => self.sent += request.len(),
                Answer::Lost(error) => return Err(error),
                Answer::Refused(refusals) => {
                    let count = request.len();
                    let rest = self.sort_out(request, &refusals);
                    ensure!(
                        rest.len() < count,
                        "the server refuses events that were not sent"
                    );
                    if !rest.is_empty() {
                        requests.push(rest);
                    }
                }
                Answer::Whole(why) if request.len() == 1 => {
                    let event = request.pop();
                    event.iter().for_each(|it| self.refuse(it.event, &why));
                }
                Answer::Whole(_) => {
                    let second = request.split_off(request.len() / 2);
                    requests.extend([second, request]);
                }
                Answer::Never(why) => {
                    let rest = requests.drain(..).flatten();
                    let all = request.into_iter().chain(rest);
                    all.for_each(|event| self.cannot(event.event, &why));
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    /// Takes what is refused out of a request; gives the rest.
    fn sort_out(&mut self, request: Vec<Mended<'a>>, refusals: &[Refusal]) -> Vec<Mended<'a>> {
        let mut rest = Vec::new();
        for (index, event) in request.into_iter().enumerate() {
            match refusals.iter().find(|refusal| refusal.index == index) {
                Some(refusal) => self.refuse(event.event, &refusal.why()),
                None => rest.push(event),
            }
        }
        rest
    }

    /// Sends a request, which is kept until it is known what became of it and that is noted.
    fn exchange(
        &mut self,
        key: &str,
        of: (i64, bool),
        request: &[Mended<'_>],
    ) -> anyhow::Result<Answer> {
        self.on_its_way.keep(of, request)?;
        let answer = self.sender.send(key, of.1, request);
        match &answer {
            Ok(Answer::Lost(_)) => return answer,
            Ok(Answer::Taken) => {
                let accepted: Vec<_> = request.iter().map(|it| it.event.clone()).collect();
                record(self.config, &accepted)?;
            }
            _ => {}
        }
        self.on_its_way.settled()?;
        answer
    }

    fn refuse(&mut self, event: &'a RejectedEvent, why: &str) {
        self.refused.push(event);
        crate::print(&format!(
            "{} {} refused again, {why}",
            shown(&event.request_id),
            event.index,
            why = shown(why)
        ));
    }

    fn cannot(&mut self, event: &RejectedEvent, why: &str) {
        self.unsendable += 1;
        crate::print(&format!(
            "{} {} cannot be sent: {why}",
            shown(&event.request_id),
            event.index,
            why = shown(why)
        ));
    }

    fn totals(&self, untried: usize) -> String {
        let untried = match untried {
            0 => String::new(),
            count => format!(", {count} not tried"),
        };
        format!(
            "{} sent, {} refused again, {} cannot be sent{untried}.",
            counted(self.sent as u64, "event"),
            self.refused.len(),
            self.unsendable
        )
    }

    /// Says how to go on with what was not sent.
    fn judge(&self, given: &Given) -> anyhow::Result<()> {
        let not_sent = self.refused.len() + self.unsendable;
        if not_sent == 0 {
            return Ok(());
        }
        let mut text = format!("{} not sent.", counted(not_sent as u64, "event"));
        if !self.refused.is_empty() {
            text += " Mend what is refused, those of a code together or one alone:";
        }
        let mut codes: BTreeMap<&str, Vec<&RejectedEvent>> = BTreeMap::new();
        for event in &self.refused {
            codes.entry(&event.code).or_default().push(event);
        }
        let command = given.command("rejected resend", &OF_ONE_EVENT);
        for (code, events) in codes {
            let which = match events.as_slice() {
                [event] => format!("--request-id {} --index {}", event.request_id, event.index),
                several => format!("--code {code}{}", limit(several.len())),
            };
            text += &format!("\n  {command} {which} --set FIELD=VALUE");
        }
        if self.unsendable > 0 {
            let list = given.command("rejected list", &OF_ONE_EVENT);
            text += "\nWhy the others cannot be sent is said above; they stay in:";
            text += &format!("\n  {list} --unsent{}", limit(not_sent));
        }
        bail!(text)
    }
}

fn limit(events: usize) -> String {
    match events {
        ..=LIMIT_DEFAULT => String::new(),
        more => format!(" --limit {more}"),
    }
}

/// Cuts events into requests, the first one last.
fn requests(events: Vec<Mended<'_>>) -> Vec<Vec<Mended<'_>>> {
    let mut requests: Vec<Vec<Mended<'_>>> = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += event.json.get().len();
        match requests.last_mut() {
            Some(last) if last.len() < REQUEST_EVENTS_MAX && bytes <= REQUEST_BYTES_MAX => {
                last.push(event);
            }
            _ => {
                bytes = event.json.get().len();
                requests.push(vec![event]);
            }
        }
    }
    requests.reverse();
    requests
}

/// The key of a project; none when it has none.
fn project_key(config: &Config, team_id: i64) -> anyhow::Result<Option<String>> {
    let project = open::on_catalog(config, async |catalog| {
        Ok(catalog.project(TeamId(team_id)).await?)
    })?;
    Ok(project.and_then(|project| project.api_token))
}
