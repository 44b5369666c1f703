//! The [`Generate`] node: every row once for each element of an array (Spark's `Generate`).
//!
//! All generators are brought to one form: an expression that gives an array for each row. A struct element becomes
//! one column for each field, any other element one column; a position may stand in front. [`Generator::apply`] works
//! batch by batch, so that a chain of a stream runs it as well as the [`GenerateExec`] of a batch query.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, RecordBatch, StructArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

/// Rows repeated for each element of an array. Output: the input's columns, then the generated ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generate {
    /// Where rows come from.
    pub input: LogicalPlan,
    /// An array for each row.
    pub list: Expr,
    /// Whether the place of the element, counted from 0, is the first generated column.
    pub position: bool,
    /// Whether a row with a NULL or empty array gives one row of NULLs instead of none.
    pub outer: bool,
    qualifier: Option<TableReference>,
    fields: Vec<Field>,
    schema: DFSchemaRef,
}

impl Generate {
    /// The node; `fields` are the generated columns, position included.
    ///
    /// # Errors
    /// `list` is no array, or the columns do not match its elements.
    pub fn try_new(
        input: LogicalPlan,
        list: Expr,
        position: bool,
        outer: bool,
        qualifier: Option<TableReference>,
        fields: Vec<Field>,
    ) -> Result<Self> {
        let DataType::List(element) = list.get_type(input.schema())? else {
            return plan_err!("`{list}` is no array");
        };
        let wanted = usize::from(position)
            + if spreads(element.data_type(), &fields, position) {
                element_width(element.data_type())
            } else {
                1
            };
        if wanted != fields.len() {
            return plan_err!(
                "`{list}` makes {wanted} columns, {} were named",
                fields.len()
            );
        }
        let mut columns: Vec<(Option<TableReference>, Arc<Field>)> = input
            .schema()
            .iter()
            .map(|(q, f)| (q.cloned(), Arc::clone(f)))
            .collect();
        columns.extend(
            fields
                .iter()
                .map(|f| (qualifier.clone(), Arc::new(f.clone()))),
        );
        let schema = Arc::new(DFSchema::new_with_metadata(
            columns,
            input.schema().metadata().clone(),
        )?);
        Ok(Self {
            input,
            list,
            position,
            outer,
            qualifier,
            fields,
            schema,
        })
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }

    /// The `Generate` node in `plan`, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Generate> {
        match plan {
            LogicalPlan::Extension(e) => e.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The generated columns, position included.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// What runs the node, given the physical form of [`Generate::list`].
    pub fn generator(&self, list: Arc<dyn PhysicalExpr>) -> Generator {
        Generator {
            list,
            position: self.position,
            outer: self.outer,
            spread: match self.list.get_type(self.input.schema()) {
                Ok(DataType::List(element)) => {
                    spreads(element.data_type(), &self.fields, self.position)
                }
                _ => false,
            },
            schema: Arc::new(self.schema.as_arrow().clone()),
        }
    }
}

/// Whether struct elements become one column for each field: explode of an array of structs keeps them whole.
fn spreads(element: &DataType, fields: &[Field], position: bool) -> bool {
    let made = &fields[usize::from(position).min(fields.len())..];
    match element {
        DataType::Struct(inner) => {
            made.len() != 1 || (inner.len() == 1 && made[0].data_type() == inner[0].data_type())
        }
        _ => false,
    }
}

fn element_width(element: &DataType) -> usize {
    match element {
        DataType::Struct(fields) => fields.len(),
        _ => 1,
    }
}

impl Hash for Generate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.list.hash(state);
        self.fields.hash(state);
    }
}

impl PartialOrd for Generate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        self.list
            .partial_cmp(&other.list)
            .filter(|o| *o != Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Generate {
    fn name(&self) -> &str {
        "Generate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.list.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "Generate: {} outer={} position={}",
            self.list, self.outer, self.position
        )
    }

    /// Columns of the input that the array is made of, and those wanted from this node.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let input = self.input.schema();
        let of_input = |index: &usize| *index < input.fields().len();
        let mut indices: Vec<usize> = output_columns.iter().copied().filter(of_input).collect();
        for column in self.list.column_refs() {
            indices.push(input.index_of_column(column).ok()?);
        }
        indices.sort_unstable();
        indices.dedup();
        Some(vec![indices])
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let (Some(list), Some(input)) = (exprs.pop(), inputs.pop()) else {
            return plan_err!("Generate needs one expression and one input");
        };
        Generate::try_new(
            input,
            list.unalias(),
            self.position,
            self.outer,
            self.qualifier.clone(),
            self.fields.clone(),
        )
    }
}

/// Runs a [`Generate`] node over batches.
#[derive(Debug, Clone)]
pub struct Generator {
    list: Arc<dyn PhysicalExpr>,
    position: bool,
    outer: bool,
    spread: bool,
    schema: SchemaRef,
}

impl Generator {
    /// The columns that come out.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows that `batch` becomes, in order.
    ///
    /// # Errors
    /// Whatever evaluating the array fails with.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let lists = self.list.evaluate(batch)?.into_array(batch.num_rows())?;
        let lists = lists.as_list::<i32>();
        if one_each(lists) {
            return self.once(batch, lists.values());
        }
        let (mut parents, mut items, mut places) = (vec![], vec![], vec![]);
        for row in 0..lists.len() {
            let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
            let count = if lists.is_null(row) { 0 } else { to - from };
            if count == 0 && self.outer {
                parents.push(row as u32);
                items.push(None);
                places.push(None);
            }
            for i in 0..count {
                parents.push(row as u32);
                items.push(Some((from + i) as u32));
                places.push(Some(i));
            }
        }
        let (parents, items) = (UInt32Array::from(parents), UInt32Array::from(items));
        let mut columns = batch
            .columns()
            .iter()
            .map(|c| take(c, &parents, None))
            .collect::<Result<Vec<_>, _>>()?;
        if self.position {
            columns.push(Arc::new(Int32Array::from(places)));
        }
        self.elements(&take(lists.values(), &items, None)?, &mut columns)?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The rows as they are, each with its one element: nothing is repeated or dropped.
    fn once(&self, batch: &RecordBatch, elements: &ArrayRef) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        if self.position {
            columns.push(Arc::new(Int32Array::from(vec![0; batch.num_rows()])));
        }
        self.elements(elements, &mut columns)?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    fn elements(&self, elements: &ArrayRef, columns: &mut Vec<ArrayRef>) -> Result<()> {
        if !self.spread {
            columns.push(Arc::clone(elements));
            return Ok(());
        }
        let structs: &StructArray = elements.as_struct();
        for column in structs.columns() {
            columns.push(match structs.nulls() {
                Some(nulls) => arrow::compute::nullif(
                    column,
                    &arrow::array::BooleanArray::new(!nulls.inner(), None),
                )?,
                None => Arc::clone(column),
            });
        }
        Ok(())
    }
}

/// True if row n has the n-th value and no other, for all values there are.
fn one_each(lists: &ListArray) -> bool {
    let offsets = lists.value_offsets();
    lists.null_count() == 0
        && lists.values().len() == lists.len()
        && (0..).zip(offsets).all(|(row, offset)| *offset == row)
}

/// [`Generate`] in a batch query.
#[derive(Debug)]
pub(super) struct GenerateExec {
    input: Arc<dyn ExecutionPlan>,
    generator: Generator,
    properties: Arc<PlanProperties>,
}

impl GenerateExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, generator: Generator) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(generator.schema())),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(
                input.properties().partitioning.partition_count(),
            ),
            input.properties().emission_type,
            input.properties().boundedness,
        );
        Self {
            input,
            generator,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for GenerateExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GenerateExec: {}", self.generator.list)
    }
}

impl ExecutionPlan for GenerateExec {
    fn name(&self) -> &'static str {
        "GenerateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        f(&self.generator.list)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(GenerateExec::new(input, self.generator.clone()))),
            None => plan_err!("GenerateExec needs one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let generator = self.generator.clone();
        let schema = Arc::clone(generator.schema());
        let batches = self
            .input
            .execute(partition, context)?
            .map(move |b| generator.apply(&b?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
