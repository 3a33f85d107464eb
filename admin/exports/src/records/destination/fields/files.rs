//! Destinations that take files.

use super::field::{
    DestinationField, DestinationSpec, FORMAT_DEFAULT, FieldKind, FieldNeed, NeededWhen, Sample,
    field, text, with,
};

/// Size in megabytes; no store takes a larger file.
const FILE_SIZE: FieldKind = FieldKind::Integer {
    min: 1,
    max: 5_000_000,
};

const SHARED: [DestinationField; 3] = [
    field(
        "file_format",
        FieldKind::Format,
        Sample::Text("Parquet"),
        "Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a \
         stream). Values in `CSV` are not changed, and spreadsheets read those that begin with \
         `=`, `+`, `-` or `@` as formulas: import such files as text.",
    )
    .with_default(Sample::Text(FORMAT_DEFAULT))
    .shown(),
    field(
        "compression",
        FieldKind::Compression,
        Sample::Text("zstd"),
        "Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, \
         `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; \
         `Arrow` allows `lz4` and `zstd`.",
    )
    .shown(),
    field(
        "max_file_size_mb",
        FILE_SIZE,
        Sample::Integer(512),
        "Largest size of a file in megabytes, before compression. Further rows go into further \
         files of the window, which are numbered. A window has 100 files at the most: if that is \
         too few, the files are larger.",
    ),
];

/// Folder of the files in a store.
const PREFIX: DestinationField = text(
    "prefix",
    "events/{year}/{month}/{day}",
    "Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are \
     those of the window's end, in UTC; `{table}` is `events` or `persons`; \
     `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and \
     repeated slashes, are omitted. It may have 924 bytes.",
);

pub(super) const S3: DestinationSpec = DestinationSpec {
    about: "Objects in Amazon S3, or in a store with the same API. The key needs `s3:PutObject`, \
            `s3:GetObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload` and, to delete files of \
            an earlier try, `s3:ListBucket`.",
    needs: &[
        with("aws_access_key_id", "aws_secret_access_key"),
        with("aws_secret_access_key", "aws_access_key_id"),
        FieldNeed {
            when: NeededWhen::Given("kms_key_id"),
            field: "encryption",
            value: Some("aws:kms"),
        },
    ],
    own: &[
        text(
            "bucket_name",
            "my-bucket",
            "Name of the bucket. Amazon's have 3 to 63 lower-case letters, digits, dots and dashes.",
        )
        .of(FieldKind::HostPart)
        .required(),
        text("region", "eu-central-1", "Region of the bucket.")
            .of(FieldKind::HostPart)
            .required(),
        PREFIX.required(),
        text(
            "aws_access_key_id",
            "AKIA0123456789ABCDEF",
            "Access key that the files are written with. It may be given later, with its secret: until then runs fail.",
        )
        .secret()
        .shown(),
        text(
            "aws_secret_access_key",
            "abcdefghijklmnopqrstuvwxyz0123456789ABCD",
            "Secret of the access key.",
        )
        .secret()
        .shown(),
        text(
            "encryption",
            "aws:kms",
            "Encryption of the files; that of the bucket if it is not given. `aws:kms` without \
             `kms_key_id` uses Amazon's own key.",
        )
        .of(FieldKind::Choice(&["AES256", "aws:kms"])),
        text(
            "kms_key_id",
            "arn:aws:kms:eu-central-1:012345678901:key/01234567-89ab-cdef-0123-456789abcdef",
            "Key of Amazon's KMS that the files are encrypted with; `encryption` must be `aws:kms`.",
        ),
        text(
            "endpoint_url",
            "https://s3.example.com",
            "URL of a store with the API of S3 that is not Amazon's, without `?` and `#`.",
        )
        .of(FieldKind::Url)
        .leading(),
        field(
            "use_virtual_style_addressing",
            FieldKind::Boolean,
            Sample::Boolean(true),
            "Whether the bucket is named before the server's name, and not in the path.",
        )
        .with_default(Sample::Boolean(false)),
    ],
    shared: &SHARED,
};

pub(super) const AZURE_BLOB: DestinationSpec = DestinationSpec {
    about: "Blobs in Azure Blob Storage.",
    needs: &[],
    own: &[
        text("container_name", "my-container", "Name of the container.").required(),
        PREFIX.shown(),
        text(
            "connection_string",
            "DefaultEndpointsProtocol=https;AccountName=myaccount;AccountKey=bXkta2V5;EndpointSuffix=core.windows.net",
            "Connection string of the storage account: `AccountName=…;AccountKey=…`, or `BlobEndpoint=…` with an \
             `AccountKey` or a `SharedAccessSignature`. A signature needs the rights to read, write, delete and list.",
        )
        .of(FieldKind::AzureConnection)
        .secret()
        .shown(),
    ],
    shared: &SHARED,
};

pub(super) const GCS: DestinationSpec = DestinationSpec {
    about: "Objects in Google Cloud Storage. The service account needs the role Storage Object User for the bucket.",
    needs: &[],
    own: &[
        text("bucket_name", "my-bucket", "Name of the bucket.").required(),
        PREFIX.shown(),
        text(
            "service_account_key",
            r#"{"type": "service_account", "private_key_id": "0123abcd", "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE…\n-----END PRIVATE KEY-----\n", "client_email": "exports@my-project.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}"#,
            "Key of a service account: the whole JSON file that Google creates, as a text. It has \
             `client_email`, `private_key` and `private_key_id`.",
        )
        .of(FieldKind::ServiceAccount)
        .secret()
        .shown(),
    ],
    shared: &SHARED,
};

pub(super) const FILE_SYSTEM: DestinationSpec = DestinationSpec {
    about: "Files on the server that runs exports, in a folder named by the organization's id \
            below the operator's folder (`export_root`). Without that setting there are no exports \
            to files.",
    needs: &[],
    own: &[text(
        "path",
        "events/{year}/{month}",
        "Folder of the files, below that of the organization: `a/b` is `<export_root>/<organization id>/a/b`. What is in braces is replaced as in the `prefix` of other files.",
    )
    .of(FieldKind::Path)
    .required()],
    shared: &SHARED,
};
