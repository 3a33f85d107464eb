//! Section 4 and the first rows of section 9: one event's fields and the codes they break.

use crate::support::{KEY, NOW, batch_of, context, rejection, row};

fn named(event: &str) -> String {
    format!(r#"{{"api_key":"{KEY}","batch":[{{"distinct_id":"d"{event}}}]}}"#)
}

fn owned(id: &str) -> String {
    format!(r#"{{"api_key":"{KEY}","batch":[{{"event":"e"{id}}}]}}"#)
}

#[test]
fn an_event_has_a_name() {
    let long = "é".repeat(200);
    let quoted = format!(r#","event":"{long}""#);
    let table = [
        (r#","event":"a""#, "a"),
        (r#","event":"  a b \n""#, "a b"),
        (r#","event":"\u2003a\u00a0""#, "a"),
        (r#","\u0065vent":"a""#, "a"),
        (r#","event":"x","event":"a""#, "a"),
        (r#","event":"\ud83c\udf89""#, "🎉"),
        (r#","event":"$groupidentify""#, "$groupidentify"),
        (quoted.as_str(), long.as_str()),
    ];
    for (fields, expected) in table {
        assert_eq!(row(named(fields), &context()).event, expected, "{fields}");
    }
}

#[test]
fn an_event_without_a_proper_name_is_refused() {
    let long = format!(r#","event":"{}""#, "é".repeat(201));
    let table = [
        ("", "missing_event"),
        (r#","event":null"#, "missing_event"),
        (r#","event":"""#, "missing_event"),
        (r#","event":" \t""#, "missing_event"),
        (r#","event":"x","event":null"#, "missing_event"),
        (r#","event":1"#, "invalid_event"),
        (r#","event":true"#, "invalid_event"),
        (r#","event":["a"]"#, "invalid_event"),
        (r#","event":{}"#, "invalid_event"),
        (r#","event":"a\u0000""#, "invalid_event"),
        (r#","event":"\ud83d""#, "invalid_event"),
        (r#","event":"\ude00\ud83d""#, "invalid_event"),
        (long.as_str(), "event_name_too_long"),
    ];
    for (fields, code) in table {
        let expected = format!("{code} batch[0].event");
        assert_eq!(rejection(named(fields), &context()), expected, "{fields}");
    }
}

#[test]
fn an_event_has_a_distinct_id() {
    let long = "é".repeat(200);
    let quoted = format!(r#","distinct_id":"{long}""#);
    let table = [
        (r#","distinct_id":"a""#, "a"),
        (r#","distinct_id":" a ""#, "a"),
        (r#","$distinct_id":"a""#, "a"),
        (r#","distinct_id":"a","$distinct_id":"b""#, "a"),
        (r#","distinct_id":null,"$distinct_id":"b""#, "b"),
        (r#","distinct_id":23"#, "23"),
        (r#","distinct_id":-2.50"#, "-2.50"),
        (r#","distinct_id":1e999"#, "1e999"),
        (
            r#","properties":{"distinct_id":"a","$distinct_id":"b"}"#,
            "a",
        ),
        (r#","properties":{"$distinct_id":"b"}"#, "b"),
        (
            r#","properties":{"distinct_id":"a"},"distinct_id":"t""#,
            "t",
        ),
        (
            r#","properties":{"distinct_id":"x","distinct_id":"a"}"#,
            "a",
        ),
        (r#","properties":{"distinct\u005fid":12}"#, "12"),
        (quoted.as_str(), long.as_str()),
    ];
    for (fields, expected) in table {
        assert_eq!(
            row(owned(fields), &context()).distinct_id,
            expected,
            "{fields}"
        );
    }
}

#[test]
fn an_event_without_a_proper_distinct_id_is_refused() {
    let long = format!(r#","distinct_id":"{}""#, "é".repeat(201));
    let digits = format!(r#","distinct_id":{}"#, "1".repeat(201));
    let table = [
        ("", "missing_distinct_id", "properties.distinct_id"),
        (
            r#","distinct_id":null"#,
            "missing_distinct_id",
            "properties.distinct_id",
        ),
        (
            r#","distinct_id":" ""#,
            "missing_distinct_id",
            "distinct_id",
        ),
        (
            r#","properties":{"distinct_id":""}"#,
            "missing_distinct_id",
            "properties.distinct_id",
        ),
        (
            r#","distinct_id":true"#,
            "invalid_distinct_id",
            "distinct_id",
        ),
        (
            r#","distinct_id":[1]"#,
            "invalid_distinct_id",
            "distinct_id",
        ),
        (
            r#","$distinct_id":{}"#,
            "invalid_distinct_id",
            "$distinct_id",
        ),
        (
            r#","properties":{"$distinct_id":"\u0000"}"#,
            "invalid_distinct_id",
            "properties.$distinct_id",
        ),
        (
            r#","distinct_id":"\udc00""#,
            "invalid_distinct_id",
            "distinct_id",
        ),
        (long.as_str(), "distinct_id_too_long", "distinct_id"),
        (digits.as_str(), "distinct_id_too_long", "distinct_id"),
    ];
    for (fields, code, field) in table {
        let expected = format!("{code} batch[0].{field}");
        assert_eq!(rejection(owned(fields), &context()), expected, "{fields}");
    }
}

#[test]
fn the_other_fields_have_their_types() {
    let table = [
        (
            r#","timestamp":"yesterday""#,
            "invalid_timestamp",
            "timestamp",
        ),
        (
            r#","timestamp":1672628645"#,
            "invalid_timestamp",
            "timestamp",
        ),
        (r#","timestamp":"\ud83d""#, "invalid_timestamp", "timestamp"),
        (r#","timestamp":{}"#, "invalid_timestamp", "timestamp"),
        (r#","uuid":"x""#, "invalid_uuid", "uuid"),
        (r#","uuid":1"#, "invalid_uuid", "uuid"),
        (r#","uuid":"\ud83d""#, "invalid_uuid", "uuid"),
        (r#","properties":[]"#, "invalid_properties", "properties"),
        (r#","properties":"{}""#, "invalid_properties", "properties"),
        (r#","properties":1"#, "invalid_properties", "properties"),
        (r#","$set":[]"#, "invalid_properties", "$set"),
        (r#","$set_once":"a""#, "invalid_properties", "$set_once"),
        (r#","$groups":false"#, "invalid_properties", "$groups"),
        (r#","$unset":"a""#, "invalid_properties", "$unset"),
        (r#","$unset":["a",1]"#, "invalid_properties", "$unset"),
        (r#","$unset":[["a"]]"#, "invalid_properties", "$unset"),
        (r#","$unset":["a",null]"#, "invalid_properties", "$unset"),
    ];
    for (fields, code, field) in table {
        let expected = format!("{code} batch[0].{field}");
        assert_eq!(
            rejection(batch_of(fields), &context()),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn null_and_unknown_fields_count_as_absent() {
    let fields = r#","timestamp":null,"uuid":null,"properties":null,"$set":null,"$set_once":null,
        "$unset":null,"$groups":null,"offset":null,"historical_migration":null,"type":"capture",
        "library":{"a":[1,{}]}"#;
    let row = row(batch_of(fields), &context());
    assert_eq!(row.properties, "{}");
    assert_eq!(row.timestamp, NOW);
    assert_eq!(row.uuid.get_version_num(), 7);
    assert!(!row.historical_migration);
}

#[test]
fn a_uuid_is_kept_in_every_spelling() {
    let table = [
        "01a1f99b-b499-70c4-9505-90a47f19f05a",
        "01A1F99BB49970C4950590A47F19F05A",
        " {01a1f99b-b499-70c4-9505-90a47f19f05a} ",
        "urn:uuid:01A1F99B-B499-70C4-9505-90A47F19F05A",
        r"\u00301a1f99b-b499-70c4-9505-90a47f19f05a",
    ];
    for text in table {
        let row = row(batch_of(&format!(r#","uuid":"{text}""#)), &context());
        let expected = 0x01a1_f99b_b499_70c4_9505_90a4_7f19_f05a;
        assert_eq!(row.uuid.as_u128(), expected, "{text}");
    }
}

#[test]
fn known_bad_ids_are_stored_with_a_warning() {
    let zeros = format!("0.{}", "0".repeat(198));
    let table = [
        r#""0""#,
        "0",
        "-0",
        "0.0",
        "-0.0",
        "-0.00",
        "0e0",
        "-0E7",
        "0.0e-12",
        "0.000000e+00",
        zeros.as_str(),
        r#""-0""#,
        r#""-0.0""#,
        r#""0.000""#,
        r#""0e+0""#,
        r#""0E-10""#,
        r#""0.0e0""#,
        r#""anonymous""#,
        r#""Anonymous-User""#,
        r#""backend""#,
        r#""distinct_id""#,
        r#""distinctId""#,
        r#""EMAIL""#,
        r#""false""#,
        r#""guest""#,
        r#""id""#,
        r#""NaN""#,
        r#""None""#,
        r#""not_authenticated""#,
        r#""null""#,
        r#""[object Object]""#,
        r#""system""#,
        r#""true""#,
        r#""undefined""#,
        r#""user""#,
        r#""00000000-0000-0000-0000-000000000000""#,
    ];
    for id in table {
        let body = owned(&format!(r#","distinct_id":{id}"#));
        let parsed = crate::support::accepted(body, &context());
        let codes: Vec<_> = parsed.report.warnings.iter().map(|w| w.code).collect();
        assert_eq!(
            (parsed.accepted, codes),
            (1, vec!["illegal_distinct_id"]),
            "{id}"
        );
    }
}

#[test]
fn ids_that_are_like_known_bad_ones_are_somebodys() {
    let table = [
        "1",
        "10",
        "-1",
        "0.1",
        "-0.1",
        "0.00001",
        "0.5e10",
        "1e0",
        r#""users""#,
        r#""00""#,
        r#""-00""#,
        r#""0.""#,
        r#""0..0""#,
        r#""0x0""#,
        r#""0.0.0""#,
        r#""0.0a""#,
        r#""-0.1""#,
        // Hexadecimal digits, as of a hash.
        r#""0e0""#,
        r#""0e462097431906509019562988736854""#,
        r#""0e462097-4319-4650-9019-562988736854""#,
        r#""anonymous2""#,
        r#""idx""#,
        r#""a""#,
    ];
    for id in table {
        let body = owned(&format!(r#","distinct_id":{id}"#));
        let report = crate::support::accepted(body, &context()).report;
        assert_eq!(report.warning_count, 0, "{id}");
    }
}
