//! Which Avro type a column is written as, by Spark's rules.

use arrow::datatypes::{DataType, Field as ArrowField, TimeUnit};
use serde_json::{Value, json};

/// The Avro schema a column is written as if none is given: Spark's, with its record names.
///
/// # Errors
/// A type that Avro has no form for, in words.
pub(super) fn schema_of(t: &DataType, nullable: bool) -> Result<Value, String> {
    written(t, nullable, "topLevelRecord", "")
}

fn written(t: &DataType, nullable: bool, record: &str, space: &str) -> Result<Value, String> {
    let inner = |f: &ArrowField| written(f.data_type(), f.is_nullable(), record, space);
    let json = match t {
        DataType::Null => return Ok(json!("null")),
        DataType::Boolean => json!("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => json!("int"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 => json!("string"),
        DataType::Binary => json!("bytes"),
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            json!({"type": "long", "logicalType": "timestamp-micros"})
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            json!({"type": "long", "logicalType": "local-timestamp-micros"})
        }
        DataType::Decimal128(p, s) if *s >= 0 => {
            let name = format!("{}.fixed", within(space, record));
            json!({"type": "fixed", "name": name, "size": decimal_bytes(*p), "logicalType": "decimal",
                "precision": p, "scale": s})
        }
        DataType::List(item) => json!({"type": "array", "items": inner(item)?}),
        DataType::Map(entries, _) => {
            let DataType::Struct(parts) = entries.data_type() else {
                return Err(format!("{t} is no map"));
            };
            if parts[0].data_type() != &DataType::Utf8 {
                return Err("Avro has maps with STRING keys only".into());
            }
            json!({"type": "map", "values": inner(&parts[1])?})
        }
        DataType::Struct(fields) => {
            let below = within(space, record);
            let fields = fields.iter().map(|f| {
                if !is_name(f.name()) {
                    return Err(format!("'{}' is no name that Avro allows", f.name()));
                }
                let inner = written(f.data_type(), f.is_nullable(), f.name(), &below)?;
                Ok(json!({"name": f.name(), "type": inner}))
            });
            let fields = fields.collect::<Result<Vec<_>, String>>()?;
            let mut json = json!({"type": "record", "name": record, "fields": fields});
            if !space.is_empty() {
                json["namespace"] = json!(space);
            }
            json
        }
        other => {
            return Err(format!(
                "Avro has no form for {}",
                crate::types::type_name(other)
            ));
        }
    };
    Ok(if nullable {
        json!([json, "null"])
    } else {
        json
    })
}

fn within(space: &str, name: &str) -> String {
    if space.is_empty() {
        name.to_owned()
    } else {
        format!("{space}.{name}")
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How many bytes hold every decimal of so many digits.
fn decimal_bytes(precision: u8) -> usize {
    let largest = 10_i128.pow(u32::from(precision)) - 1;
    let bits = 129 - largest.leading_zeros() as usize;
    bits.div_ceil(8)
}
