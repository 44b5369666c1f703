//! `var_pop`, `var_samp`, `stddev_pop`, `stddev`, `skewness` and `kurtosis`, from central moments that are updated value by
//! value and merged (Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order moments").

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::udaf::{Function, Maker, expect, for_each_row, one_group_each};

/// Number of values, mean, and sums of powers of distances from it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    n: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.merge(&Moments {
            n: 1.0,
            mean: value,
            ..Moments::default()
        });
    }

    fn merge(&mut self, other: &Moments) {
        if other.n == 0.0 {
            return;
        }
        if self.n == 0.0 {
            *self = *other;
            return;
        }
        let (a, b, n) = (self.n, other.n, self.n + other.n);
        let delta = other.mean - self.mean;
        let step = delta / n;
        let m4 = self.m4
            + other.m4
            + step * step * step * delta * a * b * (a * a - a * b + b * b)
            + 6.0 * step * step * (a * a * other.m2 + b * b * self.m2)
            + 4.0 * step * (a * other.m3 - b * self.m3);
        let m3 = self.m3
            + other.m3
            + step * step * delta * a * b * (a - b)
            + 3.0 * step * (a * other.m2 - b * self.m2);
        self.m2 += other.m2 + delta * step * a * b;
        self.m3 = m3;
        self.m4 = m4;
        self.mean += step * b;
        self.n = n;
    }
}

/// A function of the moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfMoments {
    pub(super) name: &'static str,
    /// Whether the third and fourth moment are kept as well.
    pub(super) higher: bool,
    /// The result for a group with values.
    pub(super) result: fn(&Moments) -> Option<f64>,
}

pub(super) fn var_pop(m: &Moments) -> Option<f64> {
    Some(m.m2 / m.n)
}

pub(super) fn var_samp(m: &Moments) -> Option<f64> {
    (m.n > 1.0).then(|| m.m2 / (m.n - 1.0))
}

pub(super) fn stddev_pop(m: &Moments) -> Option<f64> {
    var_pop(m).map(f64::sqrt)
}

pub(super) fn stddev_samp(m: &Moments) -> Option<f64> {
    var_samp(m).map(f64::sqrt)
}

pub(super) fn skewness(m: &Moments) -> Option<f64> {
    (m.m2 != 0.0).then(|| m.n.sqrt() * m.m3 / (m.m2 * m.m2 * m.m2).sqrt())
}

pub(super) fn kurtosis(m: &Moments) -> Option<f64> {
    (m.m2 != 0.0).then(|| m.n * m.m4 / (m.m2 * m.m2) - 3.0)
}

impl Function for OfMoments {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name, types, 1, 1)?;
        Ok(vec![DataType::Float64])
    }

    fn returns(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state(&self, _arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Float64; if self.higher { 5 } else { 3 }])
    }

    fn maker(&self, _call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let of = *self;
        Ok(Arc::new(move || {
            Box::new(MomentGroups {
                of,
                groups: Vec::new(),
            })
        }))
    }
}

struct MomentGroups {
    of: OfMoments,
    groups: Vec<Moments>,
}

impl GroupsAccumulator for MomentGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, Moments::default());
        let values = values[0].as_primitive::<Float64Type>();
        for_each_row(groups, filter, |row, group| {
            if values.is_valid(row) {
                self.groups[group].add(values.value(row));
            }
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let result = |m: &Moments| if m.n > 0.0 { (self.of.result)(m) } else { None };
        let results: Float64Array = groups.iter().map(result).collect();
        Ok(Arc::new(results))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        let fields: [fn(&Moments) -> f64; 5] = [|m| m.n, |m| m.mean, |m| m.m2, |m| m.m3, |m| m.m4];
        let kept = if self.of.higher { 5 } else { 3 };
        let column = |field: &fn(&Moments) -> f64| {
            Arc::new(Float64Array::from_iter_values(groups.iter().map(field))) as ArrayRef
        };
        Ok(fields[..kept].iter().map(column).collect())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, Moments::default());
        let columns: Vec<&Float64Array> = values
            .iter()
            .map(|column| column.as_primitive::<Float64Type>())
            .collect();
        for (row, group) in groups.iter().enumerate() {
            let of = |column: usize| columns.get(column).map_or(0.0, |column| column.value(row));
            self.groups[*group].merge(&Moments {
                n: of(0),
                mean: of(1),
                m2: of(2),
                m3: of(3),
                m4: of(4),
            });
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let of = self.of;
        let maker: Maker = Arc::new(move || {
            Box::new(MomentGroups {
                of,
                groups: Vec::new(),
            })
        });
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Moments>()
    }
}
