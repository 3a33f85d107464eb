//! Settings of the organization API: limits, retention, mail, plugins, proxies.

use clap::Args;

/// Settings of the organization API.
#[derive(Args, Clone, Debug)]
pub struct AdminSettings {
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
    /// Limit of all members of an organization together, for requests that concern it, as a
    /// multiple of the limit of one key; 0 for any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_REQUESTS_PER_ORGANIZATION_FACTOR",
        default_value_t = 40,
        value_name = "N"
    )]
    pub admin_requests_per_organization_factor: u32,
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
    /// SMTP server for invitations: smtp://host, smtp://user:password@host?tls=required, smtps://…
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SMTP_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub smtp_url: Option<String>,
    /// Sender of invitations, as in `Millrace <millrace@example.com>`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MAIL_FROM",
        value_name = "ADDRESS"
    )]
    pub mail_from: Option<String>,
    /// Nameserver that verifies domains; the system's by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DNS_NAMESERVER",
        value_name = "ADDR"
    )]
    pub dns_nameserver: Option<String>,
    /// Folder or URL of the plugins that can be installed; a small built-in list by default
    ///
    /// The folder or URL has a `plugins.json`. A URL has no query, and redirects are not followed.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGIN_CATALOGUE",
        value_name = "PLACE"
    )]
    pub plugin_catalogue: Option<String>,
    /// Base domain of the names of reverse proxies
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
