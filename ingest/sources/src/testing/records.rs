//! Generates records of each format.

use crate::Format;
use crate::mapping::SNOWPLOW_COLUMNS;
use millrace_rows::Micros;
use std::fmt::Write as _;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128_with_seed;

pub(super) const CSV_HEADER: &str = "event,distinct_id,timestamp,uuid,price,number,url,comment\n";
const EVENTS: [&str; 6] = [
    "Signed up",
    "Song Played",
    "Checkout",
    "Page Opened",
    "Video Paused",
    "Search",
];
const USERS: u64 = 10_000;
/// Properties that fill a record up to about 1 kB.
const FILLER: &str = r#""$browser":"Chrome","$browser_version":118,"$os":"Mac OS X","$screen_height":1080,"$screen_width":1920,"utm_source":"newsletter","utm_medium":"email","utm_campaign":"autumn sale, second week","plan":"enterprise","experiment":"checkout-2023-10","variant":"b","locale":"de-CH","timezone":"Europe/Zurich","is_trial":false,"cart":["sku-1029","sku-2231","sku-9910"],"referrer":"https://www.example.com/articles/2023/10/how-to-choose?ref=footer","referring_domain":"www.example.com""#;

/// Random values of a record, by the seed and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeededRng(u128);

impl SeededRng {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self(xxh3_128_with_seed(&number.to_be_bytes(), seed))
    }

    pub(super) fn event(&self) -> &'static str {
        EVENTS[(self.0 % EVENTS.len() as u128) as usize]
    }

    pub(super) fn user(&self) -> String {
        format!("user-{:06}", (self.0 >> 8) as u64 % USERS)
    }

    pub(super) fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.0.to_be_bytes()).into_uuid()
    }

    pub(super) fn price(&self) -> f64 {
        f64::from((self.0 >> 32) as u16) / 100.0
    }
}

/// Appends the record on line `number` of its file.
pub(super) fn append(format: Format, seed: u64, number: u64, at: Micros, out: &mut String) {
    let rng = SeededRng::new(seed, number);
    let written = match format {
        Format::Captured => captured(&rng, number, at, out),
        Format::Mixpanel => mixpanel(&rng, number, at, out),
        Format::Amplitude => amplitude(&rng, number, at, out),
        Format::Segment | Format::Rudderstack => segment(&rng, number, at, out, format),
        Format::Snowplow => snowplow(&rng, at, out),
        Format::GoogleAnalytics => google_analytics(&rng, number, at, out),
        Format::Clickhouse => clickhouse(&rng, number, at, out),
        Format::Csv => csv(&rng, number, at, out),
        Format::Parquet => panic!("Parquet has no lines"),
    };
    written.expect("memory takes all");
}

fn iso(at: Micros) -> String {
    let mut text = Vec::new();
    crate::time::write(&mut text, at);
    String::from_utf8(text).expect("times are ASCII")
}

/// Formats a time as `YYYY-MM-DD hh:mm:ss.ffffff`, as databases write it.
fn naive(at: Micros) -> String {
    let text = iso(at).replace('T', " ");
    let text = text.trim_end_matches('Z');
    if text.len() == 19 {
        format!("{text}.000000")
    } else {
        text.to_owned()
    }
}

fn captured(rng: &SeededRng, number: u64, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, uuid, price) = (rng.event(), rng.user(), rng.uuid(), rng.price());
    let at = iso(at);
    write!(
        out,
        r#"{{"event":"{event}","distinct_id":"{user}","timestamp":"{at}","uuid":"{uuid}","properties":{{"number":{number},"price":{price},{FILLER}}}}}"#
    )
}

fn mixpanel(rng: &SeededRng, number: u64, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, price) = (rng.event(), rng.user(), rng.price());
    let (insert_id, millis) = (rng.uuid().simple(), at.millis());
    write!(
        out,
        r#"{{"event":"{event}","properties":{{"time":{millis},"distinct_id":"{user}","$insert_id":"{insert_id}","$city":"Zürich","$region":"Zurich","mp_country_code":"CH","$mp_api_endpoint":"api.mixpanel.com","$mp_api_timestamp_ms":{millis},"mp_lib":"web","mp_processing_time_ms":{millis},"$lib_version":"2.47.0","$current_url":"https://shop.example.com/p/{number}","number":{number},"price":{price},{FILLER}}}}}"#
    )
}

fn amplitude(rng: &SeededRng, number: u64, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, uuid, price) = (rng.event(), rng.user(), rng.uuid(), rng.price());
    let at = naive(at);
    write!(
        out,
        r#"{{"$insert_id":"insert-{uuid}","amplitude_id":{number},"app":1,"city":"Lima","country":"Peru","device_id":"device-{user}","device_type":"Windows","event_id":{number},"event_time":"{at}","event_type":"{event}","groups":{{"org":["org-{}"]}},"ip_address":"203.0.113.7","os_name":"Chrome","os_version":"118","platform":"Web","session_id":-1,"user_id":"{user}","uuid":"{uuid}","user_properties":{{"plan":"pro","initial_referrer":"EMPTY"}},"event_properties":{{"number":{number},"price":{price},{FILLER}}}}}"#,
        number % 50
    )
}

fn segment(
    rng: &SeededRng,
    number: u64,
    at: Micros,
    out: &mut String,
    format: Format,
) -> std::fmt::Result {
    let (event, user, uuid, price) = (rng.event(), rng.user(), rng.uuid(), rng.price());
    let at = iso(at);
    let rudder = if format == Format::Rudderstack {
        r#""rudderId":"r","#
    } else {
        ""
    };
    write!(
        out,
        r#"{{"type":"track","event":"{event}",{rudder}"messageId":"{uuid}","anonymousId":"anon-{user}","userId":"{user}","timestamp":"{at}","receivedAt":"{at}","context":{{"ip":"203.0.113.7","library":{{"name":"analytics.js","version":"2.11.1"}},"page":{{"url":"https://shop.example.com/p/{number}","path":"/p/{number}"}}}},"properties":{{"number":{number},"price":{price},{FILLER}}}}}"#
    )
}

fn snowplow(rng: &SeededRng, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, uuid) = (rng.event(), rng.user(), rng.uuid());
    let at = naive(at);
    for column in 0..SNOWPLOW_COLUMNS {
        if column > 0 {
            out.push('\t');
        }
        match column {
            0 => out.push_str("shop"),
            2..=4 | 124 => out.push_str(&at),
            5 => out.push_str("unstruct"),
            6 => write!(out, "{uuid}")?,
            15 => write!(out, "browser-{user}")?,
            16 => out.push('3'),
            29 => out.push_str("https://shop.example.com/checkout?step=2"),
            58 => write!(
                out,
                r#"{{"schema":"iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0","data":{{"schema":"iglu:com.example/checkout/jsonschema/1-0-0","data":{{{FILLER}}}}}}}"#
            )?,
            126 => out.push_str(event),
            _ => {}
        }
    }
    Ok(())
}

fn google_analytics(
    rng: &SeededRng,
    number: u64,
    at: Micros,
    out: &mut String,
) -> std::fmt::Result {
    let (event, user, price) = (rng.event(), rng.user(), rng.price());
    let at = at.0;
    write!(
        out,
        r#"{{"event_date":"20231001","event_timestamp":"{at}","event_name":"{event}","event_params":[{{"key":"ga_session_id","value":{{"int_value":"{number}"}}}},{{"key":"page_location","value":{{"string_value":"https://shop.example.com/p/{number}"}}}},{{"key":"price","value":{{"double_value":{price}}}}}],"user_pseudo_id":"{user}","user_properties":[{{"key":"plan","value":{{"string_value":"pro","set_timestamp_micros":"{at}"}}}}],"device":{{"category":"mobile","operating_system":"iOS","web_info":{{"browser":"Safari","hostname":"shop.example.com"}}}},"geo":{{"country":"Peru","city":"Lima"}},"batch_event_index":"1","batch_ordering_id":"{number}","batch_page_id":"{at}"}}"#
    )
}

fn clickhouse(rng: &SeededRng, number: u64, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, uuid, price) = (rng.event(), rng.user(), rng.uuid(), rng.price());
    let properties = format!(r#"{{"number":{number},"price":{price},{FILLER}}}"#);
    let properties = serde_json::to_string(&properties).expect("a text is JSON");
    let at = naive(at);
    write!(
        out,
        r#"{{"uuid":"{uuid}","event":"{event}","properties":{properties},"timestamp":"{at}","team_id":1,"distinct_id":"{user}","elements_chain":"","created_at":"{at}"}}"#
    )
}

fn csv(rng: &SeededRng, number: u64, at: Micros, out: &mut String) -> std::fmt::Result {
    let (event, user, uuid, price) = (rng.event(), rng.user(), rng.uuid(), rng.price());
    let at = iso(at);
    write!(
        out,
        "{event},{user},{at},{uuid},{price},{number},https://shop.example.com/p/{number},\"said \"\"yes\"\", then\nno\""
    )
}
