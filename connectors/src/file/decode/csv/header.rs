//! Which field of a record belongs to which column.

use std::sync::Arc;

use arrow::datatypes::Schema;
use tracing::warn;

use super::options::CsvOptions;
use super::record::Record;
use crate::file::decode::DecodeError;

/// Where the columns of the schema stand in the records of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// For each column of the schema its place in a record; None where the file does not have it.
    pub(super) places: Vec<Option<usize>>,
    /// How many fields a record of the file has.
    pub(super) width: usize,
}

/// The layout of a file without a header: columns stand where the file's schema has them. `corrupt` is the column for bad
/// records, which no file has.
pub(super) fn by_place(schema: &Schema, file_schema: &Schema, corrupt: &str) -> Layout {
    let names: Vec<&str> = data_columns(file_schema, corrupt);
    let places = schema
        .fields()
        .iter()
        .map(|field| names.iter().position(|name| *name == field.name()))
        .collect();
    Layout {
        places,
        width: names.len(),
    }
}

/// The names in a header, blanks around them cut.
///
/// # Errors
/// A name stands there twice, a quote is not closed, or there are too many names.
pub(super) fn names(
    record: &Record<'_>,
    options: &CsvOptions,
    file: &Arc<str>,
) -> Result<Vec<String>, DecodeError> {
    let failed = |reason: String| DecodeError::Header {
        file: Arc::clone(file),
        reason,
    };
    if let Some(damage) = record.damage {
        return Err(failed(damage.reason()));
    }
    if record.count > options.max_columns {
        let limit = options.max_columns;
        return Err(failed(format!(
            "{} columns, and maxColumns is {limit}",
            record.count
        )));
    }
    let mut names: Vec<String> = Vec::with_capacity(record.count);
    for index in 0..record.count {
        let text = record.field(index).map_or(&b""[..], |(text, _)| text);
        names.push(String::from_utf8_lossy(text).trim().to_owned());
    }
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    match sorted
        .windows(2)
        .find(|pair| pair[0] == pair[1] && !pair[0].is_empty())
    {
        Some(pair) => Err(failed(format!("it names column \"{}\" twice", pair[0]))),
        None => Ok(names),
    }
}

/// The layout of a file whose header is `names`.
///
/// Columns are found by name, in any letter case if need be; a missing one is NULL in every row and an unknown one is
/// left out, both with a warning. If not a single name fits, the user has renamed the columns in the schema, and they are
/// taken by place.
///
/// # Errors
/// `enforceSchema` is false and the header is not the file's schema, or a name fits two columns of the header.
pub(super) fn by_name(
    names: &[String],
    schema: &Schema,
    file_schema: &Schema,
    corrupt: &str,
    options: &CsvOptions,
    file: &Arc<str>,
) -> Result<Layout, DecodeError> {
    let failed = |reason: String| DecodeError::Header {
        file: Arc::clone(file),
        reason,
    };
    let wanted = data_columns(file_schema, corrupt);
    let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    if !options.enforce_schema {
        let fits =
            names.len() == wanted.len() && names.iter().zip(&wanted).all(|(a, b)| same(a, b));
        if !fits {
            return Err(failed(format!(
                "it is \"{}\", and with enforceSchema=false it must be \"{}\"",
                names.join(", "),
                wanted.join(", ")
            )));
        }
    }
    let none_fits = !names
        .iter()
        .any(|name| wanted.iter().any(|want| same(name, want)));
    if none_fits && !wanted.is_empty() {
        warn!(
            %file, header = names.join(", "), schema = wanted.join(", "),
            "no column of the csv header is in the schema: columns are taken by place"
        );
        let layout = by_place(schema, file_schema, corrupt);
        return Ok(Layout {
            width: names.len(),
            ..layout
        });
    }
    let mut places = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        places.push(if name == corrupt {
            None
        } else {
            find(names, name).map_err(failed)?
        });
    }
    warn_about_differences(names, &wanted, file);
    Ok(Layout {
        places,
        width: names.len(),
    })
}

fn data_columns<'a>(schema: &'a Schema, corrupt: &str) -> Vec<&'a str> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    names.filter(|name| *name != corrupt).collect()
}

/// The place of `wanted`: spelt the same, or else the only one that differs in letter case.
fn find(names: &[String], wanted: &str) -> Result<Option<usize>, String> {
    if let Some(exact) = names.iter().position(|name| name == wanted) {
        return Ok(Some(exact));
    }
    let lower = wanted.to_lowercase();
    let mut found = names
        .iter()
        .enumerate()
        .filter(|(_, name)| name.to_lowercase() == lower);
    match (found.next(), found.next()) {
        (Some((_, first)), Some((_, second))) => Err(format!(
            "column \"{wanted}\" could be its \"{first}\" or its \"{second}\""
        )),
        (first, _) => Ok(first.map(|(place, _)| place)),
    }
}

fn warn_about_differences(names: &[String], wanted: &[&str], file: &Arc<str>) {
    let lower = |name: &str| name.to_lowercase();
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|want| !names.iter().any(|name| lower(name) == lower(want)))
        .collect();
    if !missing.is_empty() {
        warn!(%file, columns = missing.join(", "), "csv header lacks columns of the schema: they are null");
    }
    let unknown: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !wanted.iter().any(|want| lower(want) == lower(name)))
        .collect();
    if !unknown.is_empty() {
        warn!(%file, columns = unknown.join(", "), "csv header has columns that are not in the schema: they are left out");
    }
}
