//! Settings of the organization API's limits and retention.

use clap::Args;

/// Limits of the organization API.
#[derive(Args, Clone, Debug)]
pub struct AdminLimits {
    /// Requests that a personal key may make in a minute; 0 for any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_MINUTE_MAX",
        default_value_t = 480,
        value_name = "N"
    )]
    pub admin_requests_per_minute_max: u32,
    /// Requests that a personal key may make in an hour; 0 for any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_HOUR_MAX",
        default_value_t = 4_800,
        value_name = "N"
    )]
    pub admin_requests_per_hour_max: u32,
    /// Limit of all keys of a user together, as a multiple of the limit of one; 0 for any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_USER_FACTOR",
        default_value_t = 4,
        value_name = "N"
    )]
    pub admin_requests_per_user_factor: u32,
    /// Days that entries of the activity log are kept; 0: for ever
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ACTIVITY_LOG_KEPT_DAYS",
        default_value_t = 730,
        value_name = "DAYS"
    )]
    pub activity_log_kept_days: u32,
    /// Plugins that an organization may have; 0: any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGINS_MAX",
        value_name = "COUNT",
        default_value_t = 500
    )]
    pub plugins_max: u64,
}
