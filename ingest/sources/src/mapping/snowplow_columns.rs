//! Columns of Snowplow's enriched events, in their order.

use Kind::{Contexts, Flag, Gone, Number, Text, Unstruct};

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    /// `1` and `0`, or `true` and `false`.
    Flag,
    /// JSON with the event's context entities, each with its schema.
    Contexts,
    /// JSON with the fields of the application's own event.
    Unstruct,
    /// Column that is no property: the event's name, id or time, or of no use.
    Gone,
}

/// A column with Snowplow's name, its type, and our name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) ours: &'static str,
}

const fn renamed(name: &'static str, kind: Kind, ours: &'static str) -> Column {
    Column { name, kind, ours }
}

const fn kept(name: &'static str, kind: Kind) -> Column {
    renamed(name, kind, name)
}

pub(super) const COLUMNS: [Column; 131] = [
    kept("app_id", Text),
    kept("platform", Text),
    kept("etl_tstamp", Gone),
    kept("collector_tstamp", Gone),
    kept("dvce_created_tstamp", Gone),
    kept("event", Gone),
    kept("event_id", Gone),
    kept("txn_id", Text),
    kept("name_tracker", Text),
    renamed("v_tracker", Text, "$lib"),
    kept("v_collector", Gone),
    kept("v_etl", Gone),
    kept("user_id", Text),
    renamed("user_ipaddress", Text, "$ip"),
    kept("user_fingerprint", Text),
    renamed("domain_userid", Text, "$device_id"),
    kept("domain_sessionidx", Number),
    kept("network_userid", Text),
    renamed("geo_country", Text, "$geoip_country_code"),
    renamed("geo_region", Text, "$geoip_subdivision_1_code"),
    renamed("geo_city", Text, "$geoip_city_name"),
    renamed("geo_zipcode", Text, "$geoip_postal_code"),
    renamed("geo_latitude", Number, "$geoip_latitude"),
    renamed("geo_longitude", Number, "$geoip_longitude"),
    renamed("geo_region_name", Text, "$geoip_subdivision_1_name"),
    kept("ip_isp", Text),
    kept("ip_organization", Text),
    kept("ip_domain", Text),
    kept("ip_netspeed", Text),
    renamed("page_url", Text, "$current_url"),
    renamed("page_title", Text, "title"),
    renamed("page_referrer", Text, "$referrer"),
    kept("page_urlscheme", Text),
    renamed("page_urlhost", Text, "$host"),
    kept("page_urlport", Number),
    renamed("page_urlpath", Text, "$pathname"),
    kept("page_urlquery", Text),
    kept("page_urlfragment", Text),
    kept("refr_urlscheme", Text),
    renamed("refr_urlhost", Text, "$referring_domain"),
    kept("refr_urlport", Number),
    kept("refr_urlpath", Text),
    kept("refr_urlquery", Text),
    kept("refr_urlfragment", Text),
    kept("refr_medium", Text),
    kept("refr_source", Text),
    kept("refr_term", Text),
    renamed("mkt_medium", Text, "utm_medium"),
    renamed("mkt_source", Text, "utm_source"),
    renamed("mkt_term", Text, "utm_term"),
    renamed("mkt_content", Text, "utm_content"),
    renamed("mkt_campaign", Text, "utm_campaign"),
    kept("contexts", Contexts),
    kept("se_category", Text),
    kept("se_action", Text),
    kept("se_label", Text),
    kept("se_property", Text),
    kept("se_value", Number),
    kept("unstruct_event", Unstruct),
    kept("tr_orderid", Text),
    kept("tr_affiliation", Text),
    kept("tr_total", Number),
    kept("tr_tax", Number),
    kept("tr_shipping", Number),
    kept("tr_city", Text),
    kept("tr_state", Text),
    kept("tr_country", Text),
    kept("ti_orderid", Text),
    kept("ti_sku", Text),
    kept("ti_name", Text),
    kept("ti_category", Text),
    kept("ti_price", Number),
    kept("ti_quantity", Number),
    kept("pp_xoffset_min", Number),
    kept("pp_xoffset_max", Number),
    kept("pp_yoffset_min", Number),
    kept("pp_yoffset_max", Number),
    renamed("useragent", Text, "$raw_user_agent"),
    renamed("br_name", Text, "$browser"),
    kept("br_family", Text),
    renamed("br_version", Text, "$browser_version"),
    kept("br_type", Text),
    kept("br_renderengine", Text),
    renamed("br_lang", Text, "$browser_language"),
    kept("br_features_pdf", Flag),
    kept("br_features_flash", Flag),
    kept("br_features_java", Flag),
    kept("br_features_director", Flag),
    kept("br_features_quicktime", Flag),
    kept("br_features_realplayer", Flag),
    kept("br_features_windowsmedia", Flag),
    kept("br_features_gears", Flag),
    kept("br_features_silverlight", Flag),
    kept("br_cookies", Flag),
    kept("br_colordepth", Text),
    renamed("br_viewwidth", Number, "$viewport_width"),
    renamed("br_viewheight", Number, "$viewport_height"),
    renamed("os_name", Text, "$os"),
    kept("os_family", Text),
    kept("os_manufacturer", Text),
    renamed("os_timezone", Text, "$timezone"),
    renamed("dvce_type", Text, "$device_type"),
    kept("dvce_ismobile", Flag),
    renamed("dvce_screenwidth", Number, "$screen_width"),
    renamed("dvce_screenheight", Number, "$screen_height"),
    kept("doc_charset", Text),
    kept("doc_width", Number),
    kept("doc_height", Number),
    kept("tr_currency", Text),
    kept("tr_total_base", Number),
    kept("tr_tax_base", Number),
    kept("tr_shipping_base", Number),
    kept("ti_currency", Text),
    kept("ti_price_base", Number),
    kept("base_currency", Text),
    renamed("geo_timezone", Text, "$geoip_time_zone"),
    kept("mkt_clickid", Text),
    kept("mkt_network", Text),
    kept("etl_tags", Text),
    kept("dvce_sent_tstamp", Gone),
    kept("refr_domain_userid", Text),
    kept("refr_dvce_tstamp", Text),
    kept("derived_contexts", Contexts),
    kept("domain_sessionid", Text),
    kept("derived_tstamp", Gone),
    kept("event_vendor", Text),
    kept("event_name", Gone),
    kept("event_format", Gone),
    kept("event_version", Text),
    kept("event_fingerprint", Gone),
    kept("true_tstamp", Gone),
];

/// Index of a column by Snowplow's name; past the end if there is none.
pub(super) const fn index_of(name: &str) -> usize {
    let mut at = 0;
    while at < COLUMNS.len() {
        #[allow(clippy::indexing_slicing, reason = "within the bound, at compile time")]
        if is_same(COLUMNS[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    at
}

#[allow(
    clippy::indexing_slicing,
    reason = "within the bounds, at compile time"
)]
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_columns_have_the_indexes_of_snowplow() {
        let table = [
            ("app_id", 0),
            ("collector_tstamp", 3),
            ("event_id", 6),
            ("user_id", 12),
            ("page_url", 29),
            ("contexts", 52),
            ("unstruct_event", 58),
            ("useragent", 77),
            ("os_timezone", 100),
            ("derived_contexts", 122),
            ("event_name", 126),
            ("true_tstamp", 130),
            ("none", 131),
        ];
        for (name, expected) in table {
            assert_eq!(index_of(name), expected, "{name}");
        }
        let ours: HashSet<_> = COLUMNS.iter().map(|column| column.ours).collect();
        assert_eq!(ours.len(), COLUMNS.len(), "no two have one name");
    }
}
