//! One case file: a streaming query, the rows it is fed step by step, and what Apache Spark emitted.
//!
//! `cases/README.md` says what every field means. Rows are kept as the text they have in the file, so
//! that a number reaches the engine exactly as it reached Spark.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The rule that is checked.
    #[serde(rename = "about")]
    pub(crate) _about: String,
    #[serde(default, rename = "quirk")]
    pub(crate) _quirk: Option<String>,
    pub(crate) sources: BTreeMap<String, Source>,
    #[serde(default)]
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) pipeline: Vec<Op>,
    pub(crate) output_mode: String,
    /// True where the order of rows counts.
    #[serde(default)]
    pub(crate) ordered: bool,
    #[serde(default)]
    pub(crate) trigger: Trigger,
    /// Settings, as keys below `spark.sql.streaming.`.
    #[serde(default)]
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
    pub(crate) columns: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) expect: Vec<StepExpect>,
    #[serde(default)]
    pub(crate) expect_error: Option<ExpectError>,
}

/// A stream of files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) schema: String,
    #[serde(default = "json_format")]
    pub(crate) format: String,
    /// Reader options; a number or boolean stands for its text.
    #[serde(default)]
    pub(crate) options: BTreeMap<String, Value>,
}

fn json_format() -> String {
    "json".to_owned()
}

/// A table that never changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) schema: String,
    pub(crate) rows: Vec<Box<RawValue>>,
}

/// One relation of the pipeline.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Op {
    WithWatermark {
        name: String,
        input: String,
        column: String,
        delay: String,
    },
    DropDuplicates {
        name: String,
        input: String,
        #[serde(default)]
        columns: Vec<String>,
    },
    DropDuplicatesWithinWatermark {
        name: String,
        input: String,
        #[serde(default)]
        columns: Vec<String>,
    },
    Sql {
        name: String,
        query: String,
    },
}

/// When the query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trigger {
    /// All the time, an epoch as soon as there is data.
    #[default]
    Default,
    /// Only during a step, until everything that is there is done.
    AvailableNow,
    /// Only during a step, for one epoch at most.
    Once,
}

/// One step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// By source: a list of rows for one file, or `{"files": [rows, ...]}`.
    Add(BTreeMap<String, Box<RawValue>>),
    Restart(Restart),
}

/// How a restart goes; `true` in the file is an orderly one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Restart {
    Orderly(#[serde(deserialize_with = "only_true")] ()),
    With {
        #[serde(default)]
        lose_commit: bool,
        #[serde(default)]
        config: BTreeMap<String, String>,
    },
}

fn only_true<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    if bool::deserialize(deserializer)? {
        return Ok(());
    }
    Err(serde::de::Error::custom("a restart step says true or how"))
}

/// What a step emitted.
#[derive(Debug, Deserialize)]
pub(crate) struct StepExpect {
    pub(crate) rows: Vec<Row>,
    pub(crate) watermark: Option<String>,
    pub(crate) batches: Vec<EpochExpect>,
}

/// What one epoch of a step emitted.
#[derive(Debug, Deserialize)]
pub(crate) struct EpochExpect {
    pub(crate) id: u64,
    pub(crate) kind: EpochKind,
    pub(crate) watermark: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// The values of one row, in the order of the columns.
pub(crate) type Row = Vec<Value>;

/// Whether an epoch took new input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EpochKind {
    Data,
    NoData,
}

/// The error a case ends with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectError {
    pub(crate) when: When,
    pub(crate) step: Option<usize>,
    #[serde(rename = "class")]
    pub(crate) _class: String,
    pub(crate) gist: String,
}

/// When an error comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// While the pipeline is built or the query is started.
    Start,
    /// In a step.
    Run,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManyFiles {
    files: Vec<Vec<Box<RawValue>>>,
}

impl Case {
    /// Reads a case file; its name must be the file's.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let case: Self =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if path
            .file_stem()
            .is_none_or(|stem| stem != case.name.as_str())
        {
            return Err(format!("{}: its name is '{}'", path.display(), case.name));
        }
        Ok(case)
    }

    /// Whether the query has a watermark at all.
    pub(crate) fn has_watermark(&self) -> bool {
        self.watermarks() > 0
    }

    /// How many watermarks it declares.
    pub(crate) fn watermarks(&self) -> usize {
        let watermark = |op: &&Op| matches!(op, Op::WithWatermark { .. });
        self.pipeline.iter().filter(watermark).count()
    }
}

/// The lines of each file that an `add` brings to one source, oldest file first.
pub(crate) fn added_files(added: &RawValue) -> Result<Vec<Vec<String>>, String> {
    let bad = |e: serde_json::Error| format!("rows of an add step: {e}");
    let files = if added.get().starts_with('[') {
        vec![serde_json::from_str(added.get()).map_err(bad)?]
    } else {
        let many: ManyFiles = serde_json::from_str(added.get()).map_err(bad)?;
        many.files
    };
    files.iter().map(|rows| lines(rows)).collect()
}

/// The lines that rows make: an object is its JSON text, a text is a raw line.
pub(crate) fn lines(rows: &[Box<RawValue>]) -> Result<Vec<String>, String> {
    rows.iter().map(|row| line(row)).collect()
}

fn line(row: &RawValue) -> Result<String, String> {
    if row.get().starts_with('"') {
        return serde_json::from_str(row.get()).map_err(|e| format!("a raw line: {e}"));
    }
    // Long rows are broken over lines in the case file; JSON texts never hold a bare line break.
    let parts: Vec<&str> = row.get().lines().map(str::trim_start).collect();
    Ok(parts.join(""))
}
