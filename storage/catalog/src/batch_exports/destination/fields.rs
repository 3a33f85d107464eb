//! Which fields each type of destination has.

use crate::entities::batch_exports::DestinationType;

/// What a field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// A number of these.
    Integer { min: i64, max: i64 },
    /// True or false.
    Boolean,
    /// A list of texts.
    TextList,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// The name of a format; what goes with it is in [`FORMATS`].
    Format,
    /// The name of a compression that the format has.
    Compression,
    /// An http or https URL.
    Url,
    /// The name or address of a server.
    Host,
    /// A part of a server's name.
    HostPart,
    /// What follows a server's name in a URL.
    UrlPath,
    /// A folder below the root of exports.
    Path,
    /// Google's JSON key.
    ServiceAccount,
    /// Azure's `AccountName=…;AccountKey=…`.
    AzureConnection,
}

/// A field of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// Encrypted, and never answered.
    pub(super) secret: bool,
    /// Whether it says which server is sent the secrets, or what is made with them.
    pub(super) leads: bool,
}

/// File formats and the compressions that each has.
pub(super) const FORMATS: [(&str, &[&str]); 4] = [
    ("JSONLines", &["gzip", "brotli", "zstd"]),
    ("Parquet", &["zstd", "lz4", "snappy", "gzip", "brotli"]),
    ("CSV", &["gzip", "brotli", "zstd"]),
    ("Arrow", &["lz4", "zstd"]),
];
/// The format of files unless another one is given.
pub(super) const FORMAT_DEFAULT: &str = "JSONLines";

const PORT: Kind = Kind::Integer {
    min: 1,
    max: u16::MAX as i64,
};
/// Megabytes; above, no store takes a file.
const FILE_SIZE: Kind = Kind::Integer {
    min: 1,
    max: 5_000_000,
};

const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: false,
        secret: false,
        leads: false,
    }
}

const fn required(name: &'static str, kind: Kind) -> Field {
    Field {
        required: true,
        ..field(name, kind)
    }
}

const fn secret(name: &'static str, kind: Kind) -> Field {
    Field {
        secret: true,
        ..field(name, kind)
    }
}

const fn required_secret(name: &'static str, kind: Kind) -> Field {
    Field {
        secret: true,
        ..required(name, kind)
    }
}

const fn leading(field: Field) -> Field {
    Field {
        leads: true,
        ..field
    }
}

/// Every type has these.
const COMMON: [Field; 2] = [
    field("include_events", Kind::TextList),
    field("exclude_events", Kind::TextList),
];
const FILES: [Field; 3] = [
    field("file_format", Kind::Format),
    field("compression", Kind::Compression),
    field("max_file_size_mb", FILE_SIZE),
];
const S3: [Field; 9] = [
    required("bucket_name", Kind::HostPart),
    required("region", Kind::HostPart),
    required("prefix", Kind::Text),
    secret("aws_access_key_id", Kind::Text),
    secret("aws_secret_access_key", Kind::Text),
    field("encryption", Kind::Choice(&["AES256", "aws:kms"])),
    field("kms_key_id", Kind::Text),
    leading(field("endpoint_url", Kind::Url)),
    field("use_virtual_style_addressing", Kind::Boolean),
];
const AZURE_BLOB: [Field; 3] = [
    required("container_name", Kind::Text),
    field("prefix", Kind::Text),
    secret("connection_string", Kind::AzureConnection),
];
const GCS: [Field; 3] = [
    required("bucket_name", Kind::Text),
    field("prefix", Kind::Text),
    secret("service_account_key", Kind::ServiceAccount),
];
const FILE_SYSTEM: [Field; 1] = [required("path", Kind::Path)];
const POSTGRES: [Field; 8] = [
    required_secret("user", Kind::Text),
    required_secret("password", Kind::Text),
    leading(required("host", Kind::Host)),
    required("database", Kind::Text),
    field("schema", Kind::Text),
    field("table_name", Kind::Text),
    leading(field("port", PORT)),
    field("has_self_signed_cert", Kind::Boolean),
];
const REDSHIFT: [Field; 1] = [field(
    "properties_data_type",
    Kind::Choice(&["varchar", "super"]),
)];
const SNOWFLAKE: [Field; 11] = [
    leading(required("account", Kind::HostPart)),
    required_secret("user", Kind::Text),
    required("database", Kind::Text),
    required("warehouse", Kind::Text),
    required("schema", Kind::Text),
    field("table_name", Kind::Text),
    field(
        "authentication_type",
        Kind::Choice(&["password", "keypair"]),
    ),
    secret("password", Kind::Text),
    secret("private_key", Kind::Text),
    secret("private_key_passphrase", Kind::Text),
    field("role", Kind::Text),
];
const BIG_QUERY: [Field; 8] = [
    required("project_id", Kind::Text),
    required("dataset_id", Kind::Text),
    field("table_id", Kind::Text),
    required_secret("private_key", Kind::Text),
    required_secret("private_key_id", Kind::Text),
    leading(required_secret("token_uri", Kind::Url)),
    required_secret("client_email", Kind::Text),
    field("use_json_type", Kind::Boolean),
];
const DATABRICKS: [Field; 9] = [
    field("integration", Kind::Text),
    leading(field("server_hostname", Kind::Host)),
    required("http_path", Kind::UrlPath),
    required("catalog", Kind::Text),
    required("schema", Kind::Text),
    required("table_name", Kind::Text),
    field("use_variant_type", Kind::Boolean),
    secret("client_id", Kind::Text),
    secret("client_secret", Kind::Text),
];
const HTTP: [Field; 2] = [
    leading(required("url", Kind::Url)),
    required_secret("token", Kind::Text),
];
const NO_OP: [Field; 1] = [field("arg", Kind::Text)];

/// The fields of a type, those that matter most first.
pub(super) fn fields(kind: DestinationType) -> impl Iterator<Item = &'static Field> {
    let (own, shared): (&'static [Field], &'static [Field]) = match kind {
        DestinationType::S3 => (&S3, &FILES),
        DestinationType::AzureBlob => (&AZURE_BLOB, &FILES),
        DestinationType::Gcs => (&GCS, &FILES),
        DestinationType::FileSystem => (&FILE_SYSTEM, &FILES),
        DestinationType::Postgres => (&POSTGRES, &[]),
        DestinationType::Redshift => (&POSTGRES, &REDSHIFT),
        DestinationType::Snowflake => (&SNOWFLAKE, &[]),
        DestinationType::BigQuery => (&BIG_QUERY, &[]),
        DestinationType::Databricks => (&DATABRICKS, &[]),
        DestinationType::Http => (&HTTP, &[]),
        DestinationType::NoOp => (&NO_OP, &[]),
    };
    own.iter().chain(shared).chain(&COMMON)
}
