//! Users of the engine, as its `users.xml`: who they are, where they may come from, what they are
//! granted and how much they may take.
//!
//! | User | Password | Rights |
//! |---|---|---|
//! | `default` | none | the engine's own session, which holds the only session it may have |
//! | the server's own | hash in this file | the database, from loopback or the given networks |
//! | `admin` | [login server](crate::login) | the database |
//! | `reader` | login server | rows of the database `millrace`, read-only |
//! | `project` | login server | views of the database `project`, rows of one project |
//! | `project_query` | login server | as `project`, with the limits of the API |
//! | `project_export` | login server | tables of these views, rows of one project |
//! | `project_views` | none is accepted | reads the tables for these views, rows of one project |
//!
//! The engine reads this file once, at its start. So whatever changes while it runs, passwords and
//! projects, is the login server's. Nobody is granted a source that the operator did not name, a
//! table engine that `engines.txt` does not list, dictionaries, whose sources are read as SQL,
//! access management or named collections.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::names::{
    ADMIN, ALONE, EXPORT, LOGIN_SERVER, PROJECT, PROJECT_DATABASE, PROJECT_TOKENS, PROJECT_VIEWS,
    QUERY, READER, TOKEN_SETTING, VIEWS,
};
use crate::profiles::{HOUR_QUOTA, profiles};
use crate::users_file::hex;
use crate::{EngineOptions, shards};

/// Privileges on everything in the database.
const PRIVILEGES: &str = "SHOW DATABASES, SHOW TABLES, SHOW COLUMNS, SHOW DICTIONARIES, CHECK, SELECT, INSERT, \
    ALTER TABLE, ALTER VIEW, ALTER DATABASE, CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE TEMPORARY TABLE, \
    CREATE TEMPORARY VIEW, CREATE FUNCTION, DROP DATABASE, DROP TABLE, DROP VIEW, DROP DICTIONARY, DROP FUNCTION, \
    UNDROP TABLE, TRUNCATE, OPTIMIZE, BACKUP, KILL QUERY, dictGet, SYSTEM MERGES, \
    SYSTEM TTL MERGES, SYSTEM MOVES, SYSTEM CLEANUP, SYSTEM VIEWS, SYSTEM REDUCE BLOCKING PARTS, \
    SYSTEM WAIT LOADING PARTS, SYSTEM LOAD PRIMARY KEY, SYSTEM UNLOAD PRIMARY KEY, SYSTEM FLUSH, \
    SYSTEM DROP CACHE, SYSTEM RELOAD ASYNCHRONOUS METRICS, SYSTEM UNFREEZE";

/// Database of the tables that the views are of.
const SOURCE: &str = "millrace";

/// Engines of tables and databases that keep their rows in the engine's own folder.
const ENGINES: &str = include_str!("engines.txt");

/// Writes `users.xml`.
pub(crate) fn users_xml(options: &EngineOptions) -> String {
    let mut users = session_user() + &own_user(options);
    if options.users_dir.is_some() {
        users += &login_user(ADMIN, "admin", "default", &all_grants(options), "");
    }
    if has_readers(options) {
        users += &reader();
    }
    if has_project_users(options) {
        users += &project(PROJECT, "project", "projects");
        users += &project(QUERY, "query", "default");
        // An address of documentation, which is nobody's; the login server refuses the name, too.
        users += &table_reader(VIEWS, "192.0.2.1", "default");
        users += &table_reader(EXPORT, "::/0", "export");
    }
    format!(
        "<clickhouse><profiles>{}</profiles><users>{users}</users><quotas><default/>\
         <readers>{HOUR_QUOTA}</readers><projects>{HOUR_QUOTA}</projects></quotas></clickhouse>",
        profiles(options.memory_bytes_max),
    )
}

/// Returns true if users exist who see only a part of the rows. A source of local files needs the
/// working directory, by which the engine's function `file` reads all rows of its folder.
pub(crate) fn has_readers(options: &EngineOptions) -> bool {
    options.users_dir.is_some() && options.sources.iter().all(|source| source.is_remote())
}

/// Returns true if users exist who see the rows of one project. Shards ask each other as the
/// server's own user, and no test holds that the row filters of the asking user are theirs.
fn has_project_users(options: &EngineOptions) -> bool {
    has_readers(options) && options.shards.is_empty()
}

/// User of the engine's own session, which starts and stops the listeners. It must have no
/// password, and anybody on this machine could log in as it. The session exists before anything
/// listens and is the only one that its profile allows.
fn session_user() -> String {
    "<default><password></password><networks><ip>127.0.0.1</ip><ip>::1</ip></networks>\
     <profile>session</profile><quota>default</quota><grants>\
     <query>GRANT SYSTEM LISTEN ON *.*</query>\
     <query>GRANT SELECT ON system.processes</query></grants></default>"
        .to_owned()
}

/// The server's own user. Its password is hashed here, so that inserts depend on nothing else.
fn own_user(options: &EngineOptions) -> String {
    let name = &options.user;
    let mut networks = "<ip>127.0.0.1</ip><ip>::1</ip>".to_owned();
    for network in &options.networks {
        let _ = write!(networks, "<ip>{network}</ip>");
    }
    let definer = match has_project_users(options) {
        true => format!("<query>GRANT SET DEFINER ON {VIEWS}</query>"),
        false => String::new(),
    };
    let profile = match options.is_alone {
        true => ALONE,
        false => "default",
    };
    format!(
        "<{name}><password_sha256_hex>{}</password_sha256_hex><networks>{networks}</networks>\
         <profile>{profile}</profile><quota>default</quota><grants>{}{definer}</grants></{name}>",
        hex(&Sha256::digest(options.password.as_bytes())),
        all_grants(options),
    )
}

fn all_grants(options: &EngineOptions) -> String {
    let sources = &options.sources;
    let mut grants = format!("<query>GRANT {PRIVILEGES} ON *.*</query>");
    let opened = sources.iter().flat_map(|source| source.engines()).copied();
    for engine in ENGINES.split_whitespace().chain(opened) {
        let _ = write!(grants, "<query>GRANT TABLE ENGINE ON {engine}</query>");
    }
    for source in sources {
        let _ = write!(
            grants,
            "<query>GRANT READ, WRITE ON {}</query>",
            source.grant()
        );
    }
    grants + shards::grants(options)
}

fn reader() -> String {
    let grants = "<query>GRANT SELECT ON millrace.*</query>\
        <query>GRANT SHOW TABLES, SHOW COLUMNS ON millrace.*</query>";
    login_user(READER, "reader", "readers", grants, "")
}

/// User of all projects, or the one who runs the API's statements for them. The filter of each view
/// lets the rows pass whose project is in the table of tokens, and the filter of that table the one
/// row whose hash is that of the user and the token. The login server knows the token from the
/// password, and nobody can make one up.
fn project(name: &str, profile: &str, quota: &str) -> String {
    // Each by its name: another view would have no filter.
    let mut grants =
        format!("<query>GRANT SHOW TABLES, SHOW COLUMNS ON {PROJECT_DATABASE}.*</query>");
    for view in PROJECT_VIEWS.iter().chain([&PROJECT_TOKENS]) {
        let _ = write!(
            grants,
            "<query>GRANT SELECT ON {PROJECT_DATABASE}.{view}</query>"
        );
    }
    let databases = format!(
        "<databases><{PROJECT_DATABASE}>{}{}</{PROJECT_DATABASE}></databases>\
         <default_database>{PROJECT_DATABASE}</default_database>",
        row_filters(),
        token_filter(),
    );
    login_user(name, profile, quota, &grants, &databases)
}

/// User with whose rights the views are read, or the one who runs customers' queries of exports on
/// the tables. A filter of a view alone would not hide rows: conditions of a statement are
/// evaluated together with it, and an error of one tells of a row that the filter drops. The filter
/// of a table is evaluated before all else. The settings of a statement, and with them the token,
/// are those of whoever reads the view.
fn table_reader(name: &str, network: &str, profile: &str) -> String {
    let mut grants = format!("<query>GRANT SELECT ON {PROJECT_DATABASE}.{PROJECT_TOKENS}</query>");
    for table in PROJECT_VIEWS {
        let _ = write!(grants, "<query>GRANT SELECT ON {SOURCE}.{table}</query>");
    }
    format!(
        "<{name}><http_authentication><server>{LOGIN_SERVER}</server><scheme>basic</scheme>\
         </http_authentication><networks><ip>{network}</ip></networks><profile>{profile}</profile>\
         <quota>default</quota><grants>{grants}</grants><databases><{SOURCE}>{}</{SOURCE}>\
         <{PROJECT_DATABASE}>{}</{PROJECT_DATABASE}></databases></{name}>",
        row_filters(),
        token_filter(),
    )
}

/// Filters of all views, or of the tables of their names.
fn row_filters() -> String {
    let filter = format!("team_id IN (SELECT team_id FROM {PROJECT_DATABASE}.{PROJECT_TOKENS})");
    let filters = PROJECT_VIEWS.map(|name| format!("<{name}><filter>{filter}</filter></{name}>"));
    filters.concat()
}

/// Filter of the table of tokens. Statements can print their token, so the hash is of the user who
/// logged in, too: a client of the native protocol chooses what `currentUser()` is, and not this.
/// In a view it is still the user who logged in. The settings of a login do not reach a session,
/// which would see no rows without a reason: a text that is no number has the engine give one. It
/// reads constants before it looks for rows, of which the key would leave none to `throwIf`.
fn token_filter() -> String {
    format!(
        "<{PROJECT_TOKENS}><filter>hash = hex(SHA256(concat(authenticatedUser(), ':', \
         getSetting('{TOKEN_SETTING}')))) AND toUInt8(if(getSetting('{TOKEN_SETTING}') = '', \
         'the user of a project has no sessions: send no session_id', '1'))</filter></{PROJECT_TOKENS}>"
    )
}

fn login_user(name: &str, profile: &str, quota: &str, grants: &str, more: &str) -> String {
    format!(
        "<{name}><http_authentication><server>{LOGIN_SERVER}</server><scheme>basic</scheme>\
         </http_authentication><networks><ip>::/0</ip></networks><profile>{profile}</profile>\
         <quota>{quota}</quota><grants>{grants}</grants>{more}</{name}>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(sources: &[&str], networks: &[&str], has_users: bool) -> EngineOptions {
        EngineOptions {
            sources: sources.iter().map(|name| name.parse().unwrap()).collect(),
            networks: networks.iter().map(|net| net.parse().unwrap()).collect(),
            users_dir: has_users.then(|| "/users".into()),
            ..EngineOptions::for_tests()
        }
    }

    /// Sources, networks and whether there are users of projects; texts present and absent.
    type Case = (
        &'static [&'static str],
        &'static [&'static str],
        bool,
        &'static [&'static str],
        &'static [&'static str],
    );

    #[test]
    fn each_user_has_what_its_options_give() {
        const READS_ALL: &str = "GRANT SELECT ON millrace.*";
        const READS_ONE: &str = "GRANT SELECT ON project.events";
        const DEFINER: &str = "GRANT SET DEFINER ON project_views";
        const LOGIN: &str = "<http_authentication>";
        let table: [Case; 5] = [
            (
                &[],
                &[],
                false,
                &["<ip>::1</ip>"],
                &[LOGIN, READS_ALL, "READ, WRITE"],
            ),
            (
                &[],
                &["10.0.0.0/8"],
                true,
                &[
                    "<ip>::1</ip><ip>10.0.0.0/8</ip>",
                    READS_ALL,
                    READS_ONE,
                    DEFINER,
                ],
                &[],
            ),
            (
                &["s3"],
                &[],
                true,
                &["GRANT READ, WRITE ON S3", READS_ONE],
                &["ON FILE"],
            ),
            (
                &["file"],
                &[],
                true,
                &["GRANT READ, WRITE ON FILE", LOGIN],
                &[READS_ALL],
            ),
            (
                &["sqlite"],
                &[],
                true,
                &["GRANT READ, WRITE ON SQLITE"],
                &[READS_ONE, DEFINER],
            ),
        ];
        for (sources, networks, has_users, present, absent) in table {
            let text = users_xml(&options(sources, networks, has_users));
            for part in present {
                assert!(text.contains(part), "{sources:?}: {part}: {text}");
            }
            for part in absent {
                assert!(!text.contains(part), "{sources:?}: {part}: {text}");
            }
        }
    }

    #[test]
    fn an_engine_with_shards_has_no_users_of_single_projects() {
        let mut options = options(&[], &[], true);
        options.shards = vec!["ch1:9000".parse().unwrap()];
        let text = users_xml(&options);
        // Profiles have the same names.
        let (_, text) = text.split_once("<users>").unwrap();
        assert!(text.contains("<reader>"), "{text}");
        for user in [PROJECT, QUERY, VIEWS, EXPORT] {
            assert!(!text.contains(&format!("<{user}>")), "{user}: {text}");
        }
        assert!(!text.contains("SET DEFINER"), "{text}");
    }

    #[test]
    fn the_profile_of_the_own_user_tells_whether_the_engine_is_alone() {
        for (is_alone, expected) in [(false, "default"), (true, ALONE)] {
            let options = EngineOptions {
                is_alone,
                ..options(&[], &[], true)
            };
            let text = users_xml(&options);
            let (_, own) = text.split_once("<millrace>").unwrap();
            let (own, _) = own.split_once("</millrace>").unwrap();
            let profile = format!("<profile>{expected}</profile>");
            assert!(own.contains(&profile), "{is_alone}: {own}");
            assert!(
                text.contains(&format!("<{ALONE}><profile>default<")),
                "{text}"
            );
        }
    }

    #[test]
    fn rows_are_filtered_in_the_tables_and_in_the_views() {
        let text = users_xml(&options(&[], &[], true));
        let filter = "<events><filter>team_id IN (SELECT team_id FROM project.tokens)</filter>";
        assert_eq!(text.matches(filter).count(), 4, "{text}");
        let (_, views) = text.split_once("<project_views>").unwrap();
        assert!(
            views.contains(&format!("<databases><millrace>{filter}")),
            "{views}"
        );
        assert!(views.contains("<ip>192.0.2.1</ip>"), "{views}");
    }

    #[test]
    fn no_quota_is_shared_by_all_who_use_a_user() {
        let text = users_xml(&options(&[], &[], true));
        let quotas = text.split_once("<quotas>").map(|(_, quotas)| quotas);
        let quotas = quotas.unwrap();
        assert_eq!(quotas.matches("<interval>").count(), 2, "{quotas}");
        assert_eq!(
            quotas.matches("<keyed_by_forwarded_ip/><interval>").count(),
            2,
            "{quotas}"
        );
        let (_, query) = text.split_once("<project_query>").unwrap();
        let (query, _) = query.split_once("</project_query>").unwrap();
        assert!(query.contains("<quota>default</quota>"), "{query}");
    }

    #[test]
    fn the_password_is_written_as_its_hash_only() {
        let text = users_xml(&options(&[], &[], true));
        assert!(!text.contains("canary of a password"), "{text}");
        let hash = hex(&Sha256::digest(b"canary of a password"));
        assert!(
            text.contains(&format!("<password_sha256_hex>{hash}<")),
            "{text}"
        );
    }
}
