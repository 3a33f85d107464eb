//! Settings of the organization API: limits, retention, mail, plugins, proxies.

use crate::numbers::{count, days};
use clap::Args;

/// Settings of the organization API.
#[derive(Args, Clone, Debug)]
pub struct AdminSettings {
    /// Requests that a personal key may make in a minute; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_MINUTE_MAX",
        default_value_t = 480,
        value_parser = count::<u32>,
        value_name = "N"
    )]
    pub admin_requests_per_minute_max: u32,
    /// Requests that a personal key may make in an hour; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_HOUR_MAX",
        default_value_t = 4_800,
        value_parser = count::<u32>,
        value_name = "N"
    )]
    pub admin_requests_per_hour_max: u32,
    /// Request limit of all keys of a user together, as a multiple of one key's limit; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_USER_FACTOR",
        default_value_t = 4,
        value_parser = count::<u32>,
        value_name = "N"
    )]
    pub admin_requests_per_user_factor: u32,
    /// Request limit of an organization, as a multiple of one key's limit; 0: no limit
    ///
    /// Requests of all members that concern the organization count together.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_ORGANIZATION_FACTOR",
        default_value_t = 40,
        value_parser = count::<u32>,
        value_name = "N"
    )]
    pub admin_requests_per_organization_factor: u32,
    /// Retention of the activity log in days; 0: forever
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ACTIVITY_LOG_KEPT_DAYS",
        default_value_t = 730,
        value_parser = days::<u32>,
        value_name = "DAYS"
    )]
    pub activity_log_kept_days: u32,
    /// Number of plugins that an organization may have; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGINS_MAX",
        value_parser = count::<u64>,
        value_name = "COUNT",
        default_value_t = 500
    )]
    pub plugins_max: u64,
    /// URL of the SMTP server for mail, such as invitations; without it no mail is sent
    ///
    /// As in `smtp://host`, `smtp://user:password@host?tls=required` or `smtps://host`. Mail also
    /// needs `mail_from` and `admin_public_url`.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SMTP_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub smtp_url: Option<String>,
    /// Sender address of mail, as in `Millrace <millrace@example.com>`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MAIL_FROM",
        value_name = "ADDRESS"
    )]
    pub mail_from: Option<String>,
    /// Address of the nameserver that verifies domains; the system's by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DNS_NAMESERVER",
        value_name = "ADDR"
    )]
    pub dns_nameserver: Option<String>,
    /// Folder or URL of the plugin catalogue; a small built-in one by default
    ///
    /// The folder or URL has a `plugins.json`. A URL has no query, and redirects are not followed.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGIN_CATALOGUE",
        value_name = "PLACE"
    )]
    pub plugin_catalogue: Option<String>,
    /// Base domain of the names that customers' reverse proxies get as CNAME targets
    ///
    /// Aliases and certificates of proxies are checked, every minute at first.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PROXY_BASE_NAME",
        default_value = "proxy.localhost",
        value_name = "DOMAIN"
    )]
    pub proxy_base_name: String,
}
