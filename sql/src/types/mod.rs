//! Spark's type vocabulary on top of Arrow's.
//!
//! Users name types the way Spark does, in a schema text given to a reader and in the answers
//! they get back; the engine computes in Arrow. This module is the one place where the two
//! vocabularies meet: [`parse_schema`] and [`parse_type`] lead from text to Arrow,
//! [`type_name`], [`field_type_name`] and [`schema_ddl`] lead back.
//!
//! | Spark | Arrow |
//! | --- | --- |
//! | `BOOLEAN` | `Boolean` |
//! | `TINYINT` `SMALLINT` `INT` `BIGINT` | `Int8` `Int16` `Int32` `Int64` |
//! | `FLOAT` `DOUBLE` | `Float32` `Float64` |
//! | `DECIMAL(p,s)` | `Decimal128(p, s)` |
//! | `STRING`, `CHAR(n)`, `VARCHAR(n)` | `Utf8` |
//! | `BINARY` | `Binary` |
//! | `DATE` | `Date32` |
//! | `TIMESTAMP`, `TIMESTAMP_LTZ` | `Timestamp(Microsecond, "UTC")` |
//! | `TIMESTAMP_NTZ` | `Timestamp(Microsecond, None)` |
//! | `INTERVAL DAY TO SECOND` and its shorter forms | `Duration(Microsecond)`, see [`INTERVAL_FIELDS_KEY`] |
//! | `INTERVAL YEAR TO MONTH` and its shorter forms | `Interval(YearMonth)`, see [`INTERVAL_FIELDS_KEY`] |
//! | `INTERVAL` | `Interval(MonthDayNano)` |
//! | `VOID` | `Null` |
//! | `ARRAY<T>` | `List(item: T)` |
//! | `MAP<K, V>` | `Map(entries: {key: K not null, value: V})` |
//! | `STRUCT<...>` | `Struct` |

mod ddl;
mod names;
mod token;

pub use ddl::{DdlError, parse_schema, parse_type};
pub use names::{field_type_name, schema_ddl, type_name};

/// The zone every `TIMESTAMP` column carries: an instant, shown in UTC.
pub const TIMESTAMP_ZONE: &str = "UTC";

/// The field metadata key that holds a column's `COMMENT`, as in Spark's own schema JSON.
pub const COMMENT_KEY: &str = "comment";

/// The field metadata key that tells which fields an interval column names (`DAY`, `HOUR TO MINUTE`)
/// if not all that its Arrow type holds. Only names and the spelling of values depend on it.
pub const INTERVAL_FIELDS_KEY: &str = "interval_fields";

#[cfg(test)]
mod tests;
