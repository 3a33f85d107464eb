//! Table of the attacking tasks: their names, how often they run, and their proofs.

use super::proofs::{
    ANALYST_MEMORY, BOMBS, FORMS, HEALTH, MAILS, OPERATIONS, QUERIES, SLOW_STATEMENTS,
    UNREAD_ANSWERS,
};
use super::{Task, once, times};
use crate::attack::hostile::{
    analyst, capture, exports, fields, full_exports, health, history, mails, member, names,
    operations, parameters, people, sender,
};

/// All attacking tasks.
pub(in crate::attack::hostile) const TASKS: [Task; 36] = [
    times(
        "bombs",
        2,
        |context, rng, _| Box::pin(capture::bombs(context, rng)),
        &BOMBS,
    ),
    once(
        "mutations",
        |context, rng, _| Box::pin(capture::mutations(context, rng)),
        &[("mutated bodies without a key", &["400", "401"])],
    ),
    once(
        "image-tags",
        |context, rng, _| Box::pin(capture::image_tags(context, rng)),
        &[("image tags", &["400", "401", "413"])],
    ),
    once(
        "unfinished",
        |context, _, _| Box::pin(capture::unfinished(context)),
        &[("unfinished requests", &["100 at once"])],
    ),
    once(
        "key-bombs",
        |context, rng, _| Box::pin(sender::bombs(context, rng)),
        &[("bombs with a key", &["200", "400", "413"])],
    ),
    once(
        "key-mutations",
        |context, rng, _| Box::pin(sender::mutations(context, rng)),
        &[("mutated bodies with a key", &["200", "400"])],
    ),
    once(
        "months",
        |context, _, _| Box::pin(history::months(context)),
        &[
            ("months", &["200", "400", "413"]),
            ("months of further organizations", &["200", "400", "413"]),
        ],
    ),
    once(
        "imports",
        |context, _, _| Box::pin(history::imports(context)),
        &[
            ("imports", &["200"]),
            ("imports of further organizations", &["200"]),
        ],
    ),
    once(
        "persons",
        |context, rng, _| Box::pin(people::persons(context, rng)),
        &[
            ("made-up persons", &["200"]),
            ("made-up persons of further organizations", &["200"]),
        ],
    ),
    once(
        "merges",
        |context, rng, _| Box::pin(people::merges(context, rng)),
        &[("merges", &["200"])],
    ),
    once(
        "groups",
        |context, rng, _| Box::pin(people::groups(context, rng)),
        &[("groups", &["200"])],
    ),
    once(
        "large",
        |context, rng, _| Box::pin(sender::large(context, rng)),
        &[("bodies of 20 MiB", &["200", "400", "413"])],
    ),
    once(
        "slow",
        |context, _, _| Box::pin(sender::slow(context)),
        &[("slow bodies", &["50 at once"])],
    ),
    once(
        "unread-results",
        |context, _, _| Box::pin(sender::unread_results(context)),
        &[("results that nobody reads", &["24 at once"])],
    ),
    once(
        "texts",
        |context, _, _| Box::pin(sender::texts(context)),
        &[("hostile texts in events", &["200"])],
    ),
    once(
        "queries",
        |context, _, _| Box::pin(exports::queries(context)),
        &QUERIES,
    ),
    once(
        "full-exports",
        |context, _, _| Box::pin(full_exports::all(context)),
        &[
            ("exports of a full organization", &["201"]),
            ("runs of a full organization", &["Completed"]),
        ],
    ),
    once(
        "hanging",
        |context, _, hung| Box::pin(exports::hanging(context, hung)),
        &[("exports to servers that hang", &["201"])],
    ),
    once(
        "sources",
        |context, rng, _| Box::pin(member::sources(context, rng)),
        &[("sources that break parsers", &["200", "400"])],
    ),
    once(
        "records",
        |context, rng, _| Box::pin(member::records(context, rng)),
        &[
            ("made up: roles/", &["201"]),
            ("hostile texts in names", &["400"]),
        ],
    ),
    once(
        "mails",
        |context, rng, _| Box::pin(mails::all(context, rng)),
        &MAILS,
    ),
    once(
        "health",
        |context, _, _| Box::pin(health::pages(context)),
        &HEALTH,
    ),
    once(
        "unfinished-scrapes",
        |context, _, _| Box::pin(health::unfinished(context)),
        &[("unfinished heads to the health listener", &["80 at once"])],
    ),
    once(
        "unread-lists",
        |context, _, _| Box::pin(member::unread_lists(context)),
        &[("lists that nobody reads", &["24 at once"])],
    ),
    once(
        "wrong-keys",
        |context, rng, _| Box::pin(member::wrong_keys(context, rng)),
        &[("wrong keys", &["401"])],
    ),
    once(
        "names",
        |context, _, _| Box::pin(names::all(context)),
        &[("hostile texts in destinations", &["400"])],
    ),
    once(
        "fields",
        |context, rng, _| Box::pin(fields::all(context, rng)),
        &[("hostile texts in every field", &["400"])],
    ),
    once(
        "parameters",
        |context, rng, _| Box::pin(parameters::all(context, rng)),
        &[("hostile texts in query parameters", &["200"])],
    ),
    times(
        "operations",
        3,
        |context, rng, _| Box::pin(operations::all(context, rng)),
        &OPERATIONS,
    )
    .awaited(),
    once(
        "statements",
        |context, _, _| Box::pin(analyst::statements::all(context)),
        &[("statements that leave the database", &["code 497"])],
    ),
    once(
        "reads",
        |context, _, _| Box::pin(analyst::reads(context)),
        &[("reads of an analyst", &["200"])],
    ),
    once(
        "memory",
        |context, _, _| Box::pin(analyst::memory::all(context)),
        &ANALYST_MEMORY,
    ),
    once(
        "unread-answers",
        |context, _, _| Box::pin(analyst::connections::unread(context)),
        &[
            (UNREAD_ANSWERS, &["held back: 200"]),
            (UNREAD_ANSWERS, &["streamed: 200"]),
        ],
    ),
    once(
        "slow-statements",
        |context, _, _| Box::pin(analyst::connections::slow(context)),
        &SLOW_STATEMENTS,
    ),
    once(
        "forms",
        |context, _, _| Box::pin(analyst::forms::all(context)),
        &FORMS,
    ),
    once(
        "unfinished-heads",
        |context, _, _| Box::pin(analyst::connections::unfinished(context)),
        &[("unfinished heads to ClickHouse", &["100 at once"])],
    ),
];
