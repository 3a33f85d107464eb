//! Configuration of the engine, as its `config.xml`: listeners, memory, folders, and the login
//! server.

use std::net::SocketAddr;
use std::path::Path;

use crate::EngineOptions;
use crate::names::LOGIN_SERVER;
use crate::shards::remote_servers;

/// Connections at once, of each listener: those of the gate, and the program's own beside them.
const CONNECTIONS_MAX: u32 = 2048;
/// Statements at once: more than all users but the server's own may have.
const STATEMENTS_MAX: u32 = 160;
/// Time that an idle connection is kept, seconds: longer than the gate and the program keep theirs,
/// so that they close it and no request meets its end.
const KEEP_ALIVE_SECONDS: u32 = 300;
/// Time that a named session is kept without a request, seconds. Its memory counts in no limit.
const SESSION_SECONDS: u32 = 60;
/// Time after which a connection of the native protocol logs in again, seconds: until then a
/// password that was given up holds there.
const NATIVE_SECONDS_MAX: u32 = 300;
/// Bytes of answers that wait for the end of their statement, and of all else that statements write
/// to the disk beside tables.
const TEMPORARY_BYTES_MAX: u64 = 1 << 30;
/// Refuses what a browser sends for a page of another site, as the gate does before: a browser on
/// this machine finds the engine's own port, too.
const OTHER_SITES: &str = "<http_handlers><rule><headers>\
    <Sec-Fetch-Site>regex:(cross-site|same-site)</Sec-Fetch-Site></headers><handler>\
    <type>static</type><status>403</status>\
    <response_content>refused: a page of another site asked\n</response_content></handler></rule>\
    <defaults/></http_handlers>";
/// Time to check a password, milliseconds.
const LOGIN_MS_MAX: u32 = 5000;

/// Addresses of one start, all of loopback.
pub(crate) struct Addresses {
    /// Address of the engine's HTTP interface.
    pub(crate) http: SocketAddr,
    /// Port of its native protocol, on the same host.
    pub(crate) native_port: Option<u16>,
    /// Address of the login server, if there are users who log in there.
    pub(crate) login: Option<SocketAddr>,
}

// === impl Addresses ===

impl Addresses {
    /// Address of the native protocol, if it is served.
    pub(crate) fn native(&self) -> Option<SocketAddr> {
        let port = self.native_port;
        port.map(|port| SocketAddr::new(self.http.ip(), port))
    }
}

/// Writes `config.xml`. `users` is the path of `users.xml`.
pub(crate) fn config_xml(options: &EngineOptions, addresses: &Addresses, users: &str) -> String {
    let memory = options.memory_bytes_max;
    let native = addresses.native_port.map(|port| {
        // Shards ask each other over connections that they keep, as a user that is never rotated.
        let seconds = match options.shards.is_empty() {
            true => NATIVE_SECONDS_MAX,
            false => 0,
        };
        format!(
            "<tcp_port>{port}</tcp_port>\
             <tcp_close_connection_after_queries_seconds>{seconds}\
             </tcp_close_connection_after_queries_seconds>"
        )
    });
    let native = native.unwrap_or_default();
    let login = addresses.login.map(login_server).unwrap_or_default();
    let shards = remote_servers(options);
    // The caches count towards the memory limit, and by default each alone may be larger than it.
    format!(
        "<clickhouse><listen_host>{host}</listen_host><http_port>{port}</http_port>{native}\
         <users_config>{users}</users_config><timezone>UTC</timezone>\
         <access_control_improvements><table_engines_require_grant>1</table_engines_require_grant>\
         <users_without_row_policies_can_read_rows>1</users_without_row_policies_can_read_rows>\
         <settings_constraints_replace_previous>1</settings_constraints_replace_previous>\
         </access_control_improvements>\
         <backups><allowed_path>{backups}</allowed_path></backups>\
         <max_connections>{CONNECTIONS_MAX}</max_connections>\
         <max_concurrent_queries>{STATEMENTS_MAX}</max_concurrent_queries>\
         <keep_alive_timeout>{KEEP_ALIVE_SECONDS}</keep_alive_timeout>\
         <auth_use_forwarded_address>1</auth_use_forwarded_address>\
         <default_session_timeout>{SESSION_SECONDS}</default_session_timeout>\
         <max_session_timeout>{SESSION_SECONDS}</max_session_timeout>\
         <max_server_memory_usage>{memory}</max_server_memory_usage>\
         <max_temporary_data_on_disk_size>{TEMPORARY_BYTES_MAX}</max_temporary_data_on_disk_size>\
         <mark_cache_size>{sixteenth}</mark_cache_size>\
         <primary_index_cache_size>{sixteenth}</primary_index_cache_size>\
         <index_mark_cache_size>{small}</index_mark_cache_size>\
         <uncompressed_cache_size>0</uncompressed_cache_size>\
         <index_uncompressed_cache_size>0</index_uncompressed_cache_size>\
         <query_condition_cache_size>{small}</query_condition_cache_size>\
         <compiled_expression_cache_size>{small}</compiled_expression_cache_size>{login}{shards}\
         {OTHER_SITES}</clickhouse>",
        host = addresses.http.ip(),
        port = addresses.http.port(),
        backups = escaped(&options.backup_dir),
        sixteenth = memory / 16,
        small = memory / 64,
    )
}

fn login_server(address: SocketAddr) -> String {
    format!(
        "<http_authentication_servers><{LOGIN_SERVER}><uri>http://{address}/</uri>\
         <connection_timeout_ms>{LOGIN_MS_MAX}</connection_timeout_ms>\
         <receive_timeout_ms>{LOGIN_MS_MAX}</receive_timeout_ms>\
         <send_timeout_ms>{LOGIN_MS_MAX}</send_timeout_ms><max_tries>2</max_tries>\
         <retry_initial_backoff_ms>50</retry_initial_backoff_ms>\
         <retry_max_backoff_ms>1000</retry_max_backoff_ms>\
         </{LOGIN_SERVER}></http_authentication_servers>"
    )
}

/// Path as text of an XML element. One that is no text was refused before.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_memory_and_folders_are_those_of_the_options() {
        let options = EngineOptions {
            backup_dir: "/a&b<c".into(),
            memory_bytes_max: 1 << 30,
            ..EngineOptions::for_tests()
        };
        let mut addresses = Addresses {
            http: ([127, 0, 0, 1], 8123).into(),
            native_port: None,
            login: None,
        };
        let text = config_xml(&options, &addresses, "/proc/self/fd/9");
        let parts = [
            "<listen_host>127.0.0.1</listen_host><http_port>8123</http_port><users_config>",
            "<users_config>/proc/self/fd/9</users_config>",
            "<allowed_path>/a&amp;b&lt;c</allowed_path>",
            "<max_server_memory_usage>1073741824</max_server_memory_usage>",
            "<max_temporary_data_on_disk_size>1073741824</max_temporary_data_on_disk_size>",
            "<auth_use_forwarded_address>1</auth_use_forwarded_address>",
            "<max_session_timeout>60</max_session_timeout>",
            "<max_connections>2048</max_connections>",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("http_authentication_servers"), "{text}");
        addresses.native_port = Some(9000);
        addresses.login = Some(([127, 0, 0, 1], 9).into());
        let text = config_xml(&options, &addresses, "/users");
        for part in [
            "<tcp_port>9000</tcp_port>",
            "<tcp_close_connection_after_queries_seconds>300<",
            "<uri>http://127.0.0.1:9/</uri>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
