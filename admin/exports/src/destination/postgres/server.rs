//! Address, credentials and time limits of a server.

use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::error::ExportError;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// SQL dialect of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// PostgreSQL's dialect.
    Postgres,
    /// Amazon Redshift's dialect.
    Redshift {
        /// True if JSON goes into columns of the type SUPER.
        super_type: bool,
    },
}

/// Time limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Time to connect and to log in.
    pub connect: Duration,
    /// Time for a statement that touches no rows.
    pub statement: Duration,
    /// Time to take the next rows.
    pub stall: Duration,
    /// Time to wait for others' locks on the table.
    pub lock: Duration,
    /// Time for a statement that puts a run's rows into the table.
    pub publish: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            statement: Duration::from_secs(60),
            stall: Duration::from_secs(120),
            lock: Duration::from_secs(300),
            publish: Duration::from_secs(3_600),
        }
    }
}

/// Server, credentials, and a table in it.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) dialect: Dialect,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    pub(super) schema: String,
    pub(super) table: String,
    /// Layout of the table.
    pub(super) layout: &'static Layout,
    /// True if the server's certificate is self-signed.
    pub(super) has_self_signed_cert: bool,
    pub(super) limits: TimeLimits,
    /// Id in the name of the table that a test creates: no table of the customer has it, nor that
    /// of another test.
    pub(super) test_id: Uuid,
}

impl Server {
    pub(super) fn of(
        settings: &Settings<'_>,
        dialect: Dialect,
        layout: &'static Layout,
        limits: TimeLimits,
    ) -> Result<Self, ExportError> {
        let port_default = match dialect {
            Dialect::Postgres => 5432,
            Dialect::Redshift { .. } => 5439,
        };
        // Redshift folds names to lower case, quoted or not, and would not find them again
        // otherwise.
        let name = |name: &str| match dialect {
            Dialect::Postgres => name.to_owned(),
            Dialect::Redshift { .. } => name.to_lowercase(),
        };
        let server = Self {
            dialect,
            host: settings.required("host")?.to_owned(),
            port: settings.port_or(port_default),
            user: settings.required("user")?.to_owned(),
            password: settings.required("password")?.to_owned(),
            database: settings.required("database")?.to_owned(),
            schema: name(settings.text_or("schema", "public")),
            table: name(settings.text_or("table_name", layout.rows)),
            layout,
            has_self_signed_cert: settings.flag("has_self_signed_cert"),
            limits,
            test_id: Uuid::new_v4(),
        };
        let names = [&server.schema, &server.table, &server.database];
        if names.iter().any(|name| name.contains('\0')) {
            return Err(ExportError::permanent("A name may not contain NUL."));
        }
        Ok(server)
    }

    /// Name of the product in sentences.
    pub(super) fn product(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "PostgreSQL",
            Dialect::Redshift { .. } => "Redshift",
        }
    }
}

/// Leaves out secrets, to which the user belongs.
impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Server");
        shown.field("dialect", &self.dialect);
        shown.field("database", &self.database);
        shown.field("schema", &self.schema);
        shown.field("table", &self.table);
        shown.finish_non_exhaustive()
    }
}
