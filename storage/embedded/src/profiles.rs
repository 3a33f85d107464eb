//! Settings profiles of the engine's users: defaults as a server has them, limits, and settings
//! that nobody may change.

use crate::names::{ALONE, TOKEN_SETTING};

/// Settings that no statement may change. Their values would be languages other than SQL, SQL in a
/// string, paths to read or to write, addresses, disks elsewhere, or headers by which an answer is
/// a page or another site may read it.
const CONSTANT: [&str; 21] = [
    "dialect",
    "additional_table_filters",
    "additional_result_filter",
    "parallel_replicas_custom_key",
    "allow_experimental_eval_table_function",
    "allow_introspection_functions",
    "output_format_schema",
    "format_schema",
    "format_schema_source",
    "format_template_row",
    "format_template_resultset",
    "format_avro_schema_registry_url",
    "input_format_record_errors_file_path",
    "rename_files_after_processing",
    "dynamic_disk_allow_from_env",
    "dynamic_disk_allow_include",
    "dynamic_disk_allow_from_zk",
    "merge_tree_disk",
    "merge_tree_storage_policy",
    "http_response_headers",
    "add_http_cors_header",
];

/// Bytes up to which blocks of one INSERT are joined, so that an insert of up to 1 000 000 rows and
/// 128 MiB is one block and hence one part. Columns take more memory than RowBinary does: 8 bytes
/// more for each string.
const INSERT_BLOCK_BYTES: u64 = 1 << 30;
/// Rows up to which blocks of one INSERT are joined: more than the one million that a client may
/// send.
const INSERT_BLOCK_ROWS: u64 = 1_048_576;
/// Statements at once of each user but the server's own, so that these leave room for that one.
const STATEMENTS_MAX: u32 = 32;
/// Sixteenths of the memory for all statements of each user but the server's own and `admin`: of
/// four users, so that inserts keep a quarter.
const USER_SIXTEENTHS: u64 = 3;
/// Longest statement of somebody who only reads.
const READ_SECONDS_MAX: u32 = 300;
/// Rows of the result of a statement of the API.
const RESULT_ROWS_MAX: u64 = 1_000_000;
/// Bytes of such a result, as the engine holds it in memory.
const RESULT_BYTES_MAX: u64 = 1 << 30;
/// Threads of a statement of a project.
const QUERY_THREADS_MAX: u32 = 2;
/// What readers, and what users of projects, may take in an hour from one address: statements, rows
/// read, and seconds. Of one for all of them the first would leave nothing to the others. The API
/// counts for each organization itself. The address is the one that the gate tells the engine; over
/// the native protocol there is none, and all who use that share one quota.
pub(crate) const HOUR_QUOTA: &str = "<keyed_by_forwarded_ip/><interval><duration>3600</duration><queries>100000</queries>\
    <read_rows>1000000000000</read_rows><execution_time>36000</execution_time></interval>";

/// Writes the profiles. Whoever only reads has a share of the memory, for all of its statements
/// together.
pub(crate) fn profiles(memory_bytes_max: u64) -> String {
    let constant = CONSTANT.map(|name| format!("<{name}><const/></{name}>"));
    let memory = memory_bytes_max / 16 * USER_SIXTEENTHS;
    let of_user = format!("<max_memory_usage_for_user>{memory}</max_memory_usage_for_user>");
    let limits = format!(
        "<max_concurrent_queries_for_user>{STATEMENTS_MAX}</max_concurrent_queries_for_user>\
         <max_memory_usage>{memory}</max_memory_usage>{of_user}\
         <max_execution_time>{READ_SECONDS_MAX}</max_execution_time>"
    );
    let shared = format!("<max_threads>{QUERY_THREADS_MAX}</max_threads><priority>10</priority>");
    // The program sets the memory of each statement of exports itself.
    let fixed_of_user = "<max_memory_usage_for_user><const/></max_memory_usage_for_user>";
    let fixed = [
        "max_concurrent_queries_for_user",
        "max_memory_usage",
        "max_execution_time",
    ]
    .map(|name| format!("<{name}><const/></{name}>"));
    // The settings of a login are set as those of a statement are: `readonly` would refuse them.
    let token = format!("<{TOKEN_SETTING}><changeable_in_readonly/></{TOKEN_SETTING}>");
    let of_result = format!(
        "<max_result_rows>{RESULT_ROWS_MAX}</max_result_rows>\
         <max_result_bytes>{RESULT_BYTES_MAX}</max_result_bytes>\
         <result_overflow_mode>throw</result_overflow_mode>"
    );
    // As a server has them; the library's own defaults are those of a command-line tool. But every
    // insert into a table over shards waits for them, whether its client asks for that or not.
    format!(
        "<default><async_insert>0</async_insert><implicit_select>0</implicit_select>\
         <allow_introspection_functions>0</allow_introspection_functions>\
         <distributed_foreground_insert>1</distributed_foreground_insert>\
         <max_insert_block_size>{INSERT_BLOCK_ROWS}</max_insert_block_size>\
         <min_insert_block_size_rows>{INSERT_BLOCK_ROWS}</min_insert_block_size_rows>\
         <min_insert_block_size_bytes>{INSERT_BLOCK_BYTES}</min_insert_block_size_bytes>\
         <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>\
         <constraints>{constant}</constraints></default>\
         <{ALONE}><profile>default</profile></{ALONE}>\
         <session><max_sessions_for_user>1</max_sessions_for_user></session>\
         <admin><profile>default</profile>\
         <max_concurrent_queries_for_user>{STATEMENTS_MAX}</max_concurrent_queries_for_user></admin>\
         <reader><profile>default</profile><readonly>1</readonly>{limits}</reader>\
         <project><profile>default</profile><readonly>1</readonly>{limits}{shared}\
         <constraints>{fixed}{fixed_of_user}{token}</constraints></project>\
         <query><profile>default</profile><readonly>1</readonly>{limits}{shared}{of_result}\
         <constraints>{fixed}{fixed_of_user}{token}</constraints></query>\
         <export><profile>default</profile>{of_user}\
         <constraints>{fixed_of_user}</constraints></export>",
        constant = constant.concat(),
        fixed = fixed.concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_leave_a_quarter_of_the_memory_to_inserts_and_cannot_raise_theirs() {
        let text = profiles(1 << 30);
        let share = 192 << 20;
        let memory = format!("<max_memory_usage>{share}</max_memory_usage>");
        assert_eq!(text.matches(&memory).count(), 3, "{text}");
        let of_user = format!("<max_memory_usage_for_user>{share}</max_memory_usage_for_user>");
        assert_eq!(text.matches(&of_user).count(), 4, "{text}");
        let fixed = "<max_memory_usage_for_user><const/></max_memory_usage_for_user>";
        assert_eq!(text.matches(fixed).count(), 3, "{text}");
        assert_eq!(text.matches("<readonly>1</readonly>").count(), 3, "{text}");
        let token = "<query_cache_tag><changeable_in_readonly/></query_cache_tag>";
        assert_eq!(text.matches(token).count(), 2, "{text}");
    }

    #[test]
    fn statements_of_the_api_have_limits_of_their_own() {
        let text = profiles(1 << 30);
        let (_, query) = text
            .split_once("<query><profile>default</profile>")
            .unwrap();
        for limit in [
            "<max_concurrent_queries_for_user>32<",
            "<max_execution_time>300<",
            "<max_result_rows>1000000<",
            "<max_result_bytes>1073741824<",
            "<result_overflow_mode>throw<",
            "<max_threads>2<",
            "<priority>10<",
        ] {
            assert!(query.contains(limit), "{limit}: {query}");
        }
    }
}
