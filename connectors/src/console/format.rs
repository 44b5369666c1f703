//! [`show_string`]: rows as a table of text, laid out as Spark's `show` does.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use arrow::datatypes::Schema;
use weir_runtime::{Result, WeirError};

use super::value::ValueText;

/// No column is narrower.
const MIN_WIDTH: usize = 3;

/// How to lay out the table.
#[derive(Debug, Clone)]
pub struct ShowOptions {
    /// Most rows shown; a last line says if there are more.
    pub num_rows: usize,
    /// Longest cell in UTF-16 units (Java's characters); longer ones are cut and, from 4 on, end in `...`. 0 cuts
    /// nothing. Cells are aligned to the right, to the left with 0.
    pub truncate: usize,
    /// One line per value instead of one per row.
    pub vertical: bool,
    /// Zone in which timestamps (not `TIMESTAMP_NTZ`) are shown; `None` is UTC.
    pub time_zone: Option<Tz>,
}

impl Default for ShowOptions {
    /// Spark's: 20 rows, 20 characters, a row per line; timestamps in UTC.
    fn default() -> Self {
        Self {
            num_rows: 20,
            truncate: 20,
            vertical: false,
            time_zone: None,
        }
    }
}

impl ShowOptions {
    /// The same with the zone of this name: `UTC`, `Europe/Rome`, `+02:00`.
    ///
    /// # Errors
    /// If there is no such zone.
    pub fn with_time_zone(mut self, zone: &str) -> Result<Self> {
        let parsed = if matches!(zone, "Z" | "GMT") {
            Ok(None)
        } else {
            zone.parse().map(Some)
        };
        self.time_zone = parsed.map_err(|_| {
            WeirError::config(format!(
                "time zone '{zone}' is unknown, allowed: names such as Europe/Rome and offsets such as +02:00"
            ))
        })?;
        Ok(self)
    }
}

/// The first rows of `batches`, all with the columns of `schema`, as the text Spark 4.3's `show` prints before its
/// last line break: it ends with a line break unless rows were left out.
///
/// # Errors
/// If a value of a type without a text of its own cannot be formatted.
pub fn show_string(
    schema: &Schema,
    batches: &[RecordBatch],
    options: &ShowOptions,
) -> Result<String> {
    let header = schema
        .fields()
        .iter()
        .map(|field| escaped(field.name()).into_owned())
        .collect();
    let rows = cells(batches, options)?;
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut out = String::new();
    if options.vertical {
        push_records(&mut out, header, &rows);
    } else {
        push_table(&mut out, header, &rows, options.truncate > 0);
    }
    if total > options.num_rows {
        let noun = if options.num_rows == 1 { "row" } else { "rows" };
        out.push_str(&format!("only showing top {} {noun}", options.num_rows));
    }
    Ok(out)
}

/// The texts of the rows to show.
fn cells(batches: &[RecordBatch], options: &ShowOptions) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let wanted = batch.num_rows().min(options.num_rows - rows.len());
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|array| ValueText::new(array.as_ref(), options.time_zone))
            .collect();
        for row in 0..wanted {
            let texts = columns.iter().map(|column| column.text(row));
            let cells = texts.map(|text| Ok(cut(&escaped(&text?), options.truncate).into_owned()));
            rows.push(cells.collect::<Result<Vec<String>>>()?);
        }
    }
    Ok(rows)
}

/// Control characters that would break the table, as their escapes.
fn escaped(text: &str) -> Cow<'_, str> {
    let escape = |c: char| match c {
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        '\u{c}' => Some("\\f"),
        '\u{8}' => Some("\\b"),
        '\u{b}' => Some("\\v"),
        '\u{7}' => Some("\\a"),
        _ => None,
    };
    if !text.chars().any(|c| escape(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// At most `most` UTF-16 units of the text; a character that would be cut in half is left out.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if most == 0 || utf16_len(text) <= most {
        return Cow::Borrowed(text);
    }
    let (keep, dots) = if most < 4 {
        (most, "")
    } else {
        (most - 3, "...")
    };
    let mut units = 0;
    let kept = text.chars().take_while(|c| {
        units += c.len_utf16();
        units <= keep
    });
    Cow::Owned(kept.collect::<String>() + dots)
}

fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Columns a text takes on a terminal as Spark counts them: UTF-16 units, and one more for every wide character.
fn width(text: &str) -> usize {
    text.chars()
        .map(|c| c.len_utf16() + usize::from(is_wide(c)))
        .sum()
}

/// East Asian wide and fullwidth blocks of the basic plane, the ones Spark knows.
fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{A4CF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}'
        | '\u{FE10}'..='\u{FE19}' | '\u{FE30}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF60}' | '\u{FFE0}'..='\u{FFE6}')
}

fn push_padded(out: &mut String, text: &str, to_width: usize, right: bool) {
    let blanks = " ".repeat(to_width.saturating_sub(width(text)));
    let (before, after) = if right {
        (blanks.as_str(), "")
    } else {
        ("", blanks.as_str())
    };
    out.extend([before, text, after]);
}

fn push_table(out: &mut String, header: Vec<String>, rows: &[Vec<String>], right: bool) {
    let mut widths = vec![MIN_WIDTH; header.len()];
    for row in rows.iter().chain([&header]) {
        widths
            .iter_mut()
            .zip(row)
            .for_each(|(most, cell)| *most = width(cell).max(*most));
    }
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let rule = format!("+{}+\n", rules.join("+"));
    out.push_str(&rule);
    push_line(out, &header, &widths, right);
    out.push_str(&rule);
    rows.iter()
        .for_each(|row| push_line(out, row, &widths, right));
    out.push_str(&rule);
}

fn push_line(out: &mut String, cells: &[String], widths: &[usize], right: bool) {
    out.push('|');
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            out.push('|');
        }
        push_padded(out, cell, *width, right);
    }
    out.push_str("|\n");
}

/// `-RECORD 0---` and a line `name | value` for each column.
fn push_records(out: &mut String, header: Vec<String>, rows: &[Vec<String>]) {
    let widest = |cells: &mut dyn Iterator<Item = &String>| {
        cells
            .map(|cell| width(cell))
            .max()
            .unwrap_or(0)
            .max(MIN_WIDTH)
    };
    let names = widest(&mut header.iter());
    let values = widest(&mut rows.iter().flatten());
    for (index, row) in rows.iter().enumerate() {
        let title = format!("-RECORD {index}");
        out.push_str(&title);
        out.push_str(&"-".repeat((names + values + 5).saturating_sub(title.len())));
        out.push('\n');
        for (name, cell) in header.iter().zip(row) {
            out.push(' ');
            push_padded(out, name, names, false);
            out.push_str(" | ");
            push_padded(out, cell, values, false);
            out.push_str(" \n");
        }
    }
    if rows.is_empty() {
        out.push_str("(0 rows)\n");
    }
}
