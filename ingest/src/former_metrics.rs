//! Former names of metrics, exported beside the current ones until dashboards have followed.

/// Pairs of current and former name.
const FORMER_NAMES: [(&str, &str); 5] = [
    (
        "millrace_clock_skew_seconds",
        "millrace_clock_behind_seconds",
    ),
    (
        "millrace_insert_rows_dead_lettered_total",
        "millrace_insert_rows_set_aside_total",
    ),
    (
        "millrace_person_updates_dropped_total",
        "millrace_person_updates_left_out_total",
    ),
    (
        "millrace_quota_leased_events",
        "millrace_historical_events_held",
    ),
    (
        "millrace_shipping_lag_seconds",
        "millrace_unshipped_age_seconds",
    ),
];

/// Appends the lines of renamed metrics under their former names to an exposition.
pub(crate) fn with_former_names(mut text: String) -> String {
    let mut former = String::new();
    for line in text.lines() {
        let name = line
            .strip_prefix("# HELP ")
            .or_else(|| line.strip_prefix("# TYPE "))
            .unwrap_or(line);
        for (current, before) in FORMER_NAMES {
            let rest = name.strip_prefix(current);
            if rest.is_some_and(|rest| rest.starts_with([' ', '{'])) {
                former.push_str(&line.replacen(current, before, 1));
                former.push('\n');
            }
        }
    }
    text.push_str(&former);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_metric_is_exported_under_both_names() {
        let text = "# HELP millrace_shipping_lag_seconds Age\n\
                    # TYPE millrace_shipping_lag_seconds gauge\n\
                    millrace_shipping_lag_seconds{lane=\"live\"} 3\n\
                    millrace_shipping_lag_seconds_other 4\n";
        let expected = "# HELP millrace_unshipped_age_seconds Age\n\
                        # TYPE millrace_unshipped_age_seconds gauge\n\
                        millrace_unshipped_age_seconds{lane=\"live\"} 3\n";
        let exported = with_former_names(text.to_owned());
        assert_eq!(exported, format!("{text}{expected}"));
    }
}
