//! Columns of a file: the types that they are read as, and the properties that decide their memory.
//!
//! The types are Parquet's. Arrow's own schema, which some writers add, is ignored: it can demand
//! types that take any amount of memory for a value, and its other details are not visible in JSON.

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use parquet::arrow::{
    FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema,
};
use parquet::basic::{Compression, Type};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::SchemaDescriptor;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A column of values.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Compression of its pages.
    pub(super) codec: Compression,
    pub(super) physical: Type,
    pub(super) levels: Levels,
    /// True if a row may have several values.
    pub(super) is_repeated: bool,
    /// True if values are copied instead of referring to their page.
    pub(super) copies: bool,
    /// Bytes of a value of fixed length, otherwise 0.
    pub(super) width: u64,
}

impl Leaf {
    /// Most values of a page that a batch of `batch_rows` may have.
    pub(super) fn batch_values(&self, page_values: u64, batch_rows: u64) -> u64 {
        if self.is_repeated {
            page_values
        } else {
            page_values.min(batch_rows)
        }
    }
}

/// Highest levels of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    pub(super) definition: i16,
    pub(super) repetition: i16,
}

/// Arrow types that the columns are read as.
#[derive(Debug)]
pub(super) struct Columns {
    fields: Fields,
    levels: FieldLevels,
    /// For each column, true if its values are copied.
    copies: Vec<bool>,
}

impl Columns {
    /// Chooses the types: views into pages for texts and bytes, so that a value that many rows have
    /// is in memory once; microseconds for 96-bit times, for the range that such a time is clamped
    /// to.
    pub(super) fn of(schema: &SchemaDescriptor) -> Result<Self> {
        let arrow = parquet_to_arrow_schema(schema, None)?;
        let mut copies = Vec::new();
        let fields: Fields = arrow
            .fields()
            .iter()
            .map(|field| viewed(field, schema, &mut copies, false))
            .collect();
        let levels = parquet_to_arrow_field_levels(schema, ProjectionMask::all(), Some(&fields))?;
        Ok(Self {
            fields,
            levels,
            copies,
        })
    }

    /// Number of top-level columns, each with its nested ones.
    pub(super) fn count(&self) -> usize {
        self.fields.len()
    }

    /// Types of some top-level columns.
    pub(super) fn levels(
        &self,
        schema: &SchemaDescriptor,
        columns: Range<usize>,
    ) -> Result<Cow<'_, FieldLevels>> {
        if columns == (0..self.count()) {
            return Ok(Cow::Borrowed(&self.levels));
        }
        let mask = ProjectionMask::roots(schema, columns);
        let levels = parquet_to_arrow_field_levels(schema, mask, Some(&self.fields))?;
        Ok(Cow::Owned(levels))
    }

    /// Leaf columns of a row group.
    pub(super) fn leaves(&self, metadata: &ParquetMetaData, group: usize) -> Option<Vec<Leaf>> {
        let columns = metadata.row_groups().get(group)?.columns().iter();
        let leaf = |(column, copies): (&ColumnChunkMetaData, &bool)| {
            let about = column.column_descr();
            let physical = about.physical_type();
            let is_fixed = physical == Type::FIXED_LEN_BYTE_ARRAY;
            Leaf {
                codec: column.compression(),
                physical,
                levels: Levels {
                    definition: about.max_def_level(),
                    repetition: about.max_rep_level(),
                },
                is_repeated: about.max_rep_level() > 0,
                copies: *copies,
                width: if is_fixed {
                    u64::try_from(about.type_length()).unwrap_or_default()
                } else {
                    0
                },
            }
        };
        Some(columns.zip(&self.copies).map(leaf).collect())
    }
}

/// Field with the type that it is read as. Leaf columns are numbered in the order of the fields.
fn viewed(
    field: &FieldRef,
    schema: &SchemaDescriptor,
    copies: &mut Vec<bool>,
    is_key: bool,
) -> FieldRef {
    let mut within = |field: &FieldRef, is_key| viewed(field, schema, copies, is_key);
    let read_as = match field.data_type() {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| within(field, false)).collect())
        }
        DataType::List(element) => DataType::List(within(element, false)),
        DataType::Map(entries, is_sorted) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Arc::clone(field);
            };
            let pair = pair.iter().enumerate();
            let pair = pair.map(|(index, field)| within(field, index == 0));
            let pair = DataType::Struct(pair.collect());
            let entries = Field::clone(entries).with_data_type(pair);
            DataType::Map(Arc::new(entries), *is_sorted)
        }
        value => {
            let leaf = copies.len();
            let physical =
                (leaf < schema.num_columns()).then(|| schema.column(leaf).physical_type());
            let read_as = leaf_type(value, physical, is_key);
            let is_view = matches!(read_as, DataType::Utf8View | DataType::BinaryView);
            copies.push(physical == Some(Type::BYTE_ARRAY) && !is_view);
            read_as
        }
    };
    Arc::new(Field::clone(field).with_data_type(read_as))
}

/// Type that a leaf is read as. Keys of maps are names in JSON, so they are always texts.
fn leaf_type(value: &DataType, physical: Option<Type>, is_key: bool) -> DataType {
    match value {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary if is_key => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::Timestamp(unit, zone) => {
            let unit = match physical {
                Some(Type::INT96) => TimeUnit::Microsecond,
                _ => *unit,
            };
            // Parquet's only zone is UTC; as an offset it needs no database of zones.
            DataType::Timestamp(unit, zone.as_ref().map(|_| "+00:00".into()))
        }
        other => other.clone(),
    }
}
