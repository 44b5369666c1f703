//! The tables of Spark's options that change nothing here, and of those that are refused.

use crate::options::{OptionSpec, spec};

/// Options that guess a schema, which is always given here; programs written for Spark set them all the same.
const NO_GUESSING: &str = "not used: the schema is given, not guessed";

pub(super) const GUESS_JSON: &[OptionSpec] = &[
    spec("primitivesAsString", "false", NO_GUESSING),
    spec("prefersDecimal", "false", NO_GUESSING),
    spec("inferTimestamp", "false", NO_GUESSING),
    spec("dropFieldIfAllNull", "false", NO_GUESSING),
    spec("samplingRatio", "1.0", NO_GUESSING),
    spec("useUnsafeRow", "false", "not used: how Spark keeps rows"),
];

/// Options about types that there are none of: given, they are refused.
pub(crate) const NO_SUCH_TYPE: &[OptionSpec] = &[
    spec("timeFormat", "", NO_TIME),
    spec(
        "singleVariantColumn",
        "",
        "refused: there is no type VARIANT; a schema gives records their columns, and the format text gives them as texts",
    ),
];

/// As [`NO_SUCH_TYPE`], of writing.
pub(crate) const NO_TIME_TYPE: &[OptionSpec] = &[spec("timeFormat", "", NO_TIME)];

const NO_TIME: &str = "refused: there is no type TIME, times of day are texts";

/// Options of Spark's reader that change no result here.
pub(super) const UNUSED_CSV: &[OptionSpec] = &[
    spec(
        "columnPruning",
        "false",
        "not used: all fields of a record are read, so that which records are bad does not depend on the query",
    ),
    spec(
        "inputBufferSize",
        "",
        "not used: the buffer grows as records need it",
    ),
    spec("codec", "", "the same as compression"),
];

pub(super) const GUESS_CSV: &[OptionSpec] = &[
    spec("inferSchema", "false", NO_GUESSING),
    spec("preferDate", "true", NO_GUESSING),
    spec("samplingRatio", "1.0", NO_GUESSING),
];
