//! Users who share a device: they stay two persons after an import.

use super::TestEnv;
use super::stages::project;
use serde_json::{Value, json};

/// Exports of a tool, the earlier records in one file and the later ones in another.
struct Archive {
    format: &'static str,
    early: String,
    late: String,
}

fn amplitude(time: &str, user: Option<&str>, device: &str) -> String {
    let record = json!({
        "event_type": "seen", "user_id": user, "device_id": device, "$insert_id": time,
        "event_time": format!("2024-01-05 {time}.000000"), "user_properties": {"last": time},
    });
    format!("{record}\n")
}

fn snowplow(time: &str, user: &str, browser: &str) -> String {
    let mut columns = vec![String::new(); 131];
    for (place, value) in [
        (5, "page_view"),
        (12, user),
        (15, browser),
        (124, &format!("2024-01-05 {time}.000")),
        (126, "page_view"),
    ] {
        columns[place] = value.to_owned();
    }
    format!("{}\n", columns.join("\t"))
}

fn segment(time: &str, kind: &str, user: Option<&str>, anonymous: &str) -> String {
    let record = json!({
        "type": kind, "event": "seen", "userId": user, "anonymousId": anonymous,
        "messageId": format!("{kind} {time}"), "timestamp": format!("2024-01-05T{time}.000Z"),
    });
    format!("{record}\n")
}

fn mixpanel(time: u32, id: &str, before: &str) -> String {
    let record = json!({"event": "seen", "properties": {
        "time": time, "distinct_id": id, "$distinct_id_before_identity": before, "$insert_id": time.to_string()}});
    format!("{record}\n")
}

/// Event of Original ID Merge, which joins two ids of a cluster with a canonical id.
fn merging(time: u32, event: &str, canonical: &str, sent: &str, ids: &Value) -> String {
    let mut record = json!({"event": event, "properties": {"time": time, "distinct_id": canonical,
        "$distinct_id_before_identity": sent, "$insert_id": format!("{event} {time}")}});
    let properties = record["properties"].as_object_mut().unwrap();
    properties.extend(ids.as_object().unwrap().clone());
    format!("{record}\n")
}

/// Olga, whose canonical id is that of her first device, and Otto, who was on her second one after
/// her and whose canonical id is that of a third. The earlier file was exported before their ids
/// were merged.
fn original_id_merge() -> [String; 2] {
    let identify = |time, canonical, user: &str, device: &str| {
        let ids = json!({"$identified_id": user, "$anon_id": device});
        merging(time, "$identify", canonical, user, &ids)
    };
    [
        [
            mixpanel(1_704_441_600, "O-1", "O-1"),
            mixpanel(1_704_441_601, "O-2", "O-2"),
            mixpanel(1_704_441_602, "olga", "olga"),
            mixpanel(1_704_441_603, "otto", "otto"),
            mixpanel(1_704_441_604, "otto@x.example", "otto@x.example"),
        ]
        .concat(),
        [
            identify(1_704_445_200, "O-1", "olga", "O-1"),
            identify(1_704_445_201, "O-1", "olga", "O-2"),
            mixpanel(1_704_445_202, "O-1", "olga"),
            identify(1_704_445_203, "O-3", "otto", "O-2"),
            merging(
                1_704_445_204,
                "$merge",
                "O-3",
                "otto",
                &json!({"$distinct_ids": ["otto", "otto@x.example"]}),
            ),
            mixpanel(1_704_445_205, "O-3", "otto@x.example"),
        ]
        .concat(),
    ]
}

fn archives() -> Vec<Archive> {
    vec![
        Archive {
            format: "amplitude",
            early: [
                amplitude("08:00:00", None, "d1"),
                amplitude("08:00:00", None, "d2"),
                amplitude("08:00:00", None, "d3"),
                amplitude("09:00:00", Some("alice"), "d1"),
                amplitude("10:00:00", Some("u1"), "d2"),
                amplitude("10:01:00", Some("u2"), "d3"),
                // A device whose id equals its user's id.
                amplitude("10:02:00", Some("u6"), "u6"),
            ]
            .concat(),
            late: [
                amplitude("15:00:00", Some("erik"), "d1"),
                amplitude("16:00:00", None, "d1"),
                amplitude("12:00:00", Some("u3"), "d2"),
                amplitude("12:01:00", Some("u4"), "d3"),
                amplitude("11:00:00", Some("u5"), "d2"),
                amplitude("12:02:00", Some("u5"), "d3"),
                amplitude("12:03:00", Some("u7"), "u6"),
            ]
            .concat(),
        },
        Archive {
            format: "snowplow",
            early: [
                snowplow("08:00:00", "", "browser"),
                snowplow("09:00:00", "sam", "browser"),
            ]
            .concat(),
            late: snowplow("10:00:00", "sue", "browser"),
        },
        Archive {
            format: "segment",
            early: [
                segment("08:00:00", "track", None, "visitor-7"),
                segment("09:00:00", "identify", Some("gil"), "visitor-7"),
            ]
            .concat(),
            late: segment("10:00:00", "identify", Some("gus"), "visitor-7"),
        },
        Archive {
            format: "rudderstack",
            early: [
                segment("08:00:00", "track", None, "visitor-8"),
                segment("09:00:00", "identify", Some("ria"), "visitor-8"),
            ]
            .concat(),
            late: segment("10:00:00", "identify", Some("rob"), "visitor-8"),
        },
        Archive {
            format: "mixpanel",
            early: mixpanel(1_704_441_600, "324172", "$device:1") + &original_id_merge()[0],
            late: mixpanel(1_704_445_200, "324172", "324172") + &original_id_merge()[1],
        },
    ]
}

/// Expected ids of each person.
const PERSONS: &str = "324172\nO-1 O-2 olga\nO-3 otto otto@x.example\nalice d1\nbrowser sam\nd2 u1\nd3 u2\nerik\ngil visitor-7\ngus\nria visitor-8\nrob\nsue\nu3\nu4\nu5\nu6\nu7";

fn persons(project_id: &str) -> String {
    format!(
        "SELECT arrayStringConcat(arraySort(groupUniqArray(distinct_id)), ' ') AS ids \
         FROM millrace.events_with_persons WHERE team_id = {project_id} GROUP BY person_id ORDER BY ids"
    )
}

/// Query of the guide for rejected merges.
fn refused(project_id: &str) -> String {
    format!(
        "SELECT DISTINCT e.distinct_id AS user, d.distinct_id AS device \
         FROM millrace.events_with_persons AS e \
         JOIN (SELECT * FROM millrace.person_distinct_ids FINAL) AS d ON d.team_id = e.team_id \
         AND d.distinct_id = JSONExtractString(e.properties, '$anon_distinct_id') \
         WHERE e.event = '$identify' AND d.person_id != e.person_id AND e.team_id = {project_id} ORDER BY user, device"
    )
}

fn load(env: &TestEnv, key: &str, archive: &Archive, which: &str, more: &[&str]) {
    let file = format!("{}-{which}", archive.format);
    let staging = format!("staging-{}", archive.format);
    let args = [
        "load",
        &file,
        "--format",
        archive.format,
        "--staging",
        &staging,
        "--project-key",
        key,
    ];
    let (loaded, code) = env.result(&[&args[..], more].concat());
    let rejected = &loaded["rejected_by_code"];
    assert_eq!((rejected, code), (&json!({}), Some(0)), "{loaded}");
}

#[test]
fn users_of_one_device_stay_apart_whatever_order_files_are_read_in() {
    let env = TestEnv::start();
    let archives = archives();
    for archive in &archives {
        for (which, text) in [("early", &archive.early), ("late", &archive.late)] {
            let path = env.path(&format!("{}-{which}", archive.format));
            std::fs::write(path, text).unwrap();
        }
    }
    let own = (
        env.server.credential("team_id"),
        env.server.credential("project_api_key"),
    );
    let other = project(&env.server);
    env.approve(&other.0);
    for ((project_id, key), order) in [(&own, ["early", "late"]), (&other, ["late", "early"])] {
        for which in order {
            for archive in &archives {
                load(&env, key, archive, which, &[]);
            }
        }
        env.server.wait_for(&persons(project_id), PERSONS);
        let expected = "O-3\tO-2\nerik\td1\ngus\tvisitor-7\nrob\tvisitor-8\nsue\tbrowser\nu3\td2\nu4\td3\nu5\td2\nu5\td3\nu7\tu6";
        assert_eq!(
            env.server.query(&refused(project_id)),
            expected,
            "{order:?}"
        );
    }
    // The same files are imported again, and users send live events.
    for which in ["late", "early"] {
        for archive in &archives {
            load(&env, &own.1, archive, which, &["--restart"]);
        }
    }
    let identify = |user: &str| -> Value {
        json!({"event": "$identify", "distinct_id": user, "properties": {"$anon_distinct_id": "visitor"}})
    };
    env.server.capture(&json!([
        {"event": "seen", "distinct_id": "visitor"},
        identify("yan"),
        identify("yves"),
        {"event": "seen", "distinct_id": "zoe", "properties": {"$set": {"last": true}}},
    ]));
    let sql = "SELECT count() FROM millrace.person_distinct_ids WHERE distinct_id = 'zoe'";
    env.server.wait_for(sql, "1");
    let expected = format!("{PERSONS}\nvisitor yan\nyves\nzoe");
    env.server.wait_for(&persons(&own.0), &expected);
}
