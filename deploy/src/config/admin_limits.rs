//! The settings of how much the organization API serves and keeps.

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
    /// All keys of a user together may make so many times what one may; 0 for any number
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
        default_value_t = 0,
        value_name = "DAYS"
    )]
    pub activity_log_kept_days: u32,
}
