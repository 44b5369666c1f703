//! What was seen against what Spark did.

use arrow::datatypes::Schema;

use crate::case::{Case, EpochExpect, ExpectError, Row, StepExpect, When};
use crate::compare;
use crate::run::{Seen, SeenEpoch, SeenStep};

/// `Ok` with a remark (for an error case, what the engine said), or the first difference.
pub(crate) fn judge(topic: &str, case: &Case, seen: &Seen, strict: bool) -> Result<String, String> {
    if let Some(error) = &seen.refused {
        return refused(topic, case, error);
    }
    if let Some(ExpectError {
        when: When::Start,
        gist,
        ..
    }) = &case.expect_error
    {
        return Err(format!("not refused, expected a refusal: {gist}"));
    }
    let schema = seen.schema.as_ref().ok_or("the query has no schema")?;
    compare::schema(&case.columns, &case.types, schema)?;
    for (number, (expect, step)) in case.expect.iter().zip(&seen.steps).enumerate() {
        same_step(case, expect, step, schema, strict)
            .map_err(|difference| format!("step {number}: {difference}"))?;
    }
    if let Some((number, difference)) = &seen.between {
        return Err(format!("after step {number}: {difference}"));
    }
    ended(case, seen)
}

/// Whether a start without new rows gave what it should: an epoch again, or nothing.
pub(crate) fn repeated(
    case: &Case,
    expected: Option<&SeenEpoch>,
    got: &[SeenEpoch],
    schema: &Schema,
) -> Result<(), String> {
    let (expected, got) = match (expected, got) {
        (None, []) => return Ok(()),
        (None, more) => {
            let ids: Vec<u64> = more.iter().map(|epoch| epoch.id).collect();
            return Err(format!("epochs {ids:?} without new rows"));
        }
        (Some(expected), [got]) => (expected, got),
        (Some(expected), other) => {
            return Err(format!(
                "{} epochs, expected epoch {} again",
                other.len(),
                expected.id
            ));
        }
    };
    let again = EpochExpect {
        id: expected.id,
        kind: expected.kind,
        watermark: expected.watermark.clone(),
        rows: expected.rows.clone(),
    };
    same_epochs(case, &[again], std::slice::from_ref(got), schema)
        .map_err(|difference| format!("repeated {difference}"))
}

/// A refusal is right if it was expected at the start, or if Spark too refuses the plan but later.
fn refused(topic: &str, case: &Case, error: &str) -> Result<String, String> {
    match &case.expect_error {
        Some(ExpectError {
            when: When::Start, ..
        }) => Ok(format!("refused: {error}")),
        Some(ExpectError { step: Some(0), .. }) if topic == "unsupported" => {
            Ok(format!("refused: {error}"))
        }
        _ => Err(format!("refused: {error}")),
    }
}

/// Whether the run ended where it should, after steps that were all right.
fn ended(case: &Case, seen: &Seen) -> Result<String, String> {
    match (&case.expect_error, &seen.failed) {
        (None, None) if seen.steps.len() == case.expect.len() => Ok(String::new()),
        (None, None) => Err(format!(
            "{} steps ran, expected {}",
            seen.steps.len(),
            case.expect.len()
        )),
        (None, Some(failure)) => Err(format!("step {}: failed: {}", failure.step, failure.error)),
        (Some(expected), None) => Err(format!(
            "did not fail, expected step {} to fail: {}",
            expected.step.unwrap_or_default(),
            expected.gist
        )),
        (Some(expected), Some(failure)) if expected.step != Some(failure.step) => Err(format!(
            "step {} failed, expected step {} to: {}",
            failure.step,
            expected.step.unwrap_or_default(),
            failure.error
        )),
        (Some(_), Some(failure)) if !failure.rows.is_empty() => Err(format!(
            "step {}: the failing step emitted {} rows, expected none",
            failure.step,
            failure.rows.len()
        )),
        (Some(_), Some(failure)) => Ok(format!("failed: {}", failure.error)),
    }
}

fn same_step(
    case: &Case,
    expect: &StepExpect,
    step: &SeenStep,
    schema: &Schema,
    strict: bool,
) -> Result<(), String> {
    let rows: Vec<Row> = step
        .epochs
        .iter()
        .flat_map(|epoch| epoch.rows.iter().cloned())
        .collect();
    compare::rows(&expect.rows, &rows, schema, case.ordered)?;
    if expect.watermark != step.watermark {
        return Err(format!(
            "watermark {}, expected {}",
            shown(step.watermark.as_ref()),
            shown(expect.watermark.as_ref())
        ));
    }
    if strict {
        same_epochs(case, &expect.batches, &step.epochs, schema)?;
    }
    Ok(())
}

fn same_epochs(
    case: &Case,
    expect: &[EpochExpect],
    seen: &[SeenEpoch],
    schema: &Schema,
) -> Result<(), String> {
    for (expect, seen) in expect.iter().zip(seen) {
        let at = |difference: String| format!("epoch {}: {difference}", seen.id);
        if expect.id != seen.id {
            return Err(at(format!("expected epoch {}", expect.id)));
        }
        if expect.kind != seen.kind {
            return Err(at(format!(
                "kind {:?}, expected {:?}",
                seen.kind, expect.kind
            )));
        }
        if expect.watermark != seen.watermark {
            return Err(at(format!(
                "watermark {}, expected {}",
                shown(seen.watermark.as_ref()),
                shown(expect.watermark.as_ref())
            )));
        }
        compare::rows(&expect.rows, &seen.rows, schema, case.ordered).map_err(at)?;
    }
    if expect.len() != seen.len() {
        return Err(format!("{} epochs, expected {}", seen.len(), expect.len()));
    }
    Ok(())
}

fn shown(watermark: Option<&String>) -> &str {
    watermark.map_or("none", String::as_str)
}
