//! Destinations that take rows into a table.

use super::field::{DestinationField, DestinationSpec, FieldKind, Sample, field, text, when, with};

const PORT: FieldKind = FieldKind::Integer {
    min: 1,
    max: u16::MAX as i64,
};
const USER: DestinationField = text(
    "user",
    "exports",
    "User who owns the table, or may create it.",
)
.required()
.secret();
const PASSWORD: DestinationField = text("password", "correct horse", "Password of the user.")
    .required()
    .secret();
const HOST: DestinationField = text("host", "db.example.com", "Name or address of the server.")
    .of(FieldKind::Host)
    .required()
    .leading();
const DATABASE: DestinationField =
    text("database", "analytics", "Database that the table is in.").required();
const SCHEMA: DestinationField =
    text("schema", "public", "Schema that the table is in.").with_default(Sample::Text("public"));
const TABLE: DestinationField = text(
    "table_name",
    "millrace_events",
    "Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.",
)
.shown();
const SELF_SIGNED: DestinationField = field(
    "has_self_signed_cert",
    FieldKind::Boolean,
    Sample::Boolean(true),
    "Whether a certificate of the server is accepted that no authority vouches for.",
)
.with_default(Sample::Boolean(false));

const fn port(default: i64) -> DestinationField {
    field(
        "port",
        PORT,
        Sample::Integer(default),
        "Port that the server listens on.",
    )
    .with_default(Sample::Integer(default))
    .leading()
}

pub(super) const POSTGRES: DestinationSpec = DestinationSpec {
    about: "Rows of a table in PostgreSQL, upserted by `uuid`; persons by project and distinct id. \
            The user needs the right to create tables in the schema. Give the server's own port, \
            or a pooler's that keeps sessions: PgBouncer with `pool_mode = transaction` does not \
            work.",
    needs: &[],
    own: &[
        USER,
        PASSWORD,
        HOST,
        DATABASE,
        SCHEMA,
        TABLE,
        port(5_432),
        SELF_SIGNED,
    ],
    shared: &[],
};

pub(super) const CLICKHOUSE: DestinationSpec = DestinationSpec {
    about: "Rows of a table in your own ClickHouse, each once; an event that was sent again with \
            other values is a newer row of the same key, and so is a person's new version. The user \
            needs the rights to create, read, fill and drop tables of the database. One server, or \
            ClickHouse Cloud: a staging table has to be on the host that is asked.",
    needs: &[],
    own: &[
        text(
            "url",
            "https://clickhouse.example.com:8443",
            "URL of the HTTP interface; with https the certificate must be by an authority that \
             systems know.",
        )
        .of(FieldKind::Url)
        .required()
        .leading(),
        USER,
        PASSWORD,
        DATABASE,
        TABLE,
    ],
    shared: &[],
};

pub(super) const REDSHIFT: DestinationSpec = DestinationSpec {
    about: "Rows of a table in Amazon Redshift, by `uuid`; persons by project and distinct id. The \
            user needs the right to create tables in the schema.",
    needs: &[],
    own: &[
        USER,
        PASSWORD,
        text(
            "host",
            "my-cluster.abc123.eu-central-1.redshift.amazonaws.com",
            "Name or address of the cluster.",
        )
        .of(FieldKind::Host)
        .required()
        .leading(),
        DATABASE,
        SCHEMA,
        TABLE,
        port(5_439),
        SELF_SIGNED,
        text(
            "properties_data_type",
            "super",
            "Type of columns that hold JSON.",
        )
        .of(FieldKind::Choice(&["varchar", "super"]))
        .with_default(Sample::Text("varchar")),
    ],
    shared: &[],
};

pub(super) const SNOWFLAKE: DestinationSpec = DestinationSpec {
    about: "Rows of a table in Snowflake, merged by `uuid`, by its SQL API. The API accepts a key \
            pair, or a programmatic access token as the `password`; it accepts no passwords of \
            users.",
    needs: &[
        when("authentication_type", "password", "password"),
        when("authentication_type", "keypair", "private_key"),
        with("private_key_passphrase", "private_key"),
    ],
    own: &[
        text(
            "account",
            "myorganization-myaccount",
            "Name of the account, as before `.snowflakecomputing.com`.",
        )
        .of(FieldKind::HostPart)
        .required()
        .leading(),
        text("user", "EXPORTS", "User who fills the table.")
            .required()
            .secret(),
        text("database", "ANALYTICS", "Database that the table is in.").required(),
        text(
            "warehouse",
            "COMPUTE_WH",
            "Warehouse that statements run in.",
        )
        .required(),
        text("schema", "PUBLIC", "Schema that the table is in.").required(),
        TABLE,
        text(
            "authentication_type",
            "keypair",
            "How the user logs in: `password` needs `password`, `keypair` needs `private_key`.",
        )
        .of(FieldKind::Choice(&["password", "keypair"]))
        .with_default(Sample::Text("password"))
        .shown(),
        text(
            "password",
            "eyJraWQiOiIxMjM0NSIs…",
            "Programmatic access token of the user.",
        )
        .secret(),
        text(
            "private_key",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE…\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "RSA key of the user, in PEM.",
        )
        .secret()
        .shown(),
        text(
            "private_key_passphrase",
            "correct horse",
            "Passphrase of the key, if the key is encrypted.",
        )
        .secret()
        .shown(),
        text(
            "role",
            "EXPORTER",
            "Role that statements run as; the user's own if it is not given.",
        ),
    ],
    shared: &[],
};

pub(super) const BIG_QUERY: DestinationSpec = DestinationSpec {
    about: "Rows of a table in BigQuery, merged by `uuid`. The service account needs the roles \
            BigQuery Data Editor for the dataset and BigQuery Job User; its fields are those of \
            the JSON key that Google creates.",
    needs: &[],
    own: &[
        text("project_id", "my-project", "Project that the dataset is in.").required(),
        text("dataset_id", "analytics", "Dataset that the table is in.").required(),
        text(
            "table_id",
            "millrace_events",
            "Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.",
        )
        .shown(),
        text(
            "private_key",
            "-----BEGIN PRIVATE KEY-----\nMIIE…\n-----END PRIVATE KEY-----\n",
            "Key of the service account, in PEM.",
        )
        .required()
        .secret(),
        text("private_key_id", "0123abcd", "Id of the key.")
            .required()
            .secret(),
        text(
            "token_uri",
            "https://oauth2.googleapis.com/token",
            "URL that tokens are requested from.",
        )
        .of(FieldKind::Url)
        .required()
        .secret()
        .leading(),
        text(
            "client_email",
            "exports@my-project.iam.gserviceaccount.com",
            "Name of the service account.",
        )
        .required()
        .secret(),
        field(
            "use_json_type",
            FieldKind::Boolean,
            Sample::Boolean(true),
            "Whether columns that hold JSON have the type JSON, and not STRING.",
        )
        .with_default(Sample::Boolean(false)),
    ],
    shared: &[],
};

pub(super) const DATABRICKS: DestinationSpec = DestinationSpec {
    about: "Rows of a table in Databricks, merged by `uuid`, by a SQL warehouse. A service \
            principal logs in by OAuth; it needs the right to create tables in the schema.",
    needs: &[
        with("client_id", "client_secret"),
        with("client_secret", "client_id"),
    ],
    own: &[
        text(
            "server_hostname",
            "dbc-a1b2345c-d6e7.cloud.databricks.com",
            "Name of the workspace's server. It may be given later: until then runs fail.",
        )
        .of(FieldKind::Host)
        .leading()
        .shown(),
        text(
            "http_path",
            "/sql/1.0/warehouses/0123456789abcdef",
            "Path of the SQL warehouse.",
        )
        .of(FieldKind::UrlPath)
        .required(),
        text("catalog", "main", "Catalog that the schema is in.").required(),
        text("schema", "analytics", "Schema that the table is in.").required(),
        text(
            "table_name",
            "millrace_events",
            "Name of the table, which is created if it does not exist.",
        )
        .required(),
        text(
            "client_id",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            "Id of the service principal. It may be given later, with its secret: until then runs fail.",
        )
        .secret()
        .shown(),
        text(
            "client_secret",
            "dose0123456789abcdef0123456789abcdef",
            "OAuth secret of the service principal.",
        )
        .secret()
        .shown(),
        field(
            "use_variant_type",
            FieldKind::Boolean,
            Sample::Boolean(false),
            "Whether columns that hold JSON have the type VARIANT, and not STRING.",
        )
        .with_default(Sample::Boolean(true)),
        text(
            "integration",
            "1",
            "Kept for clients that send it; it has no effect.",
        ),
    ],
    shared: &[],
};
