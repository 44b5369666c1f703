//! A stream as a leaf of a logical plan.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, TableScan, TableSource};
use weir_runtime::{Result, Source, WeirError};

/// Makes the source of a leaf. The argument is the list of columns that are wanted, if the source may leave out others.
type MakeSource = dyn Fn(Option<SchemaRef>) -> Result<Box<dyn Source>> + Send + Sync;

/// A stream that plans read. Its identity is the allocation: the same leaf twice in a plan is one source with two readers.
pub(crate) struct StreamLeaf {
    schema: SchemaRef,
    /// Id of the source in the topology, if the user gave one.
    pub(crate) name: Option<String>,
    /// What it is, for explain.
    pub(crate) description: String,
    /// Whether the source gives the same values if it reads fewer columns.
    pub(crate) prunable: bool,
    make: Box<MakeSource>,
}

impl StreamLeaf {
    /// A leaf whose source is made anew by each query.
    pub(crate) fn new<F>(
        schema: SchemaRef,
        name: Option<String>,
        description: String,
        prunable: bool,
        make: F,
    ) -> Self
    where
        F: Fn(Option<SchemaRef>) -> Result<Box<dyn Source>> + Send + Sync + 'static,
    {
        Self {
            schema,
            name,
            description,
            prunable,
            make: Box::new(make),
        }
    }

    /// A leaf over one source, which the first query takes.
    pub(crate) fn once(source: Box<dyn Source>, name: Option<String>) -> Self {
        let (schema, description) = (source.schema(), source.description());
        let (slot, what) = (Mutex::new(Some(source)), description.clone());
        Self::new(schema, name, description, false, move |_| {
            let source = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            source.ok_or_else(|| {
                WeirError::plan(format!(
                    "{what} was given to one query already: give a function that makes the source"
                ))
            })
        })
    }

    /// The source, reading at least the columns of `wanted`.
    pub(crate) fn source(&self, wanted: Option<SchemaRef>) -> Result<Box<dyn Source>> {
        (self.make)(wanted)
    }

    /// A plan that reads this leaf under a table name.
    pub(crate) fn scan(self, table: &str) -> DfResult<LogicalPlan> {
        LogicalPlanBuilder::scan(table, Arc::new(self), None)?.build()
    }

    /// The leaf that `scan` reads, if it is a stream.
    pub(crate) fn of(scan: &TableScan) -> Option<&StreamLeaf> {
        scan.source.downcast_ref::<StreamLeaf>()
    }
}

impl fmt::Debug for StreamLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamLeaf({})", self.description)
    }
}

impl TableSource for StreamLeaf {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// True if rows of the plan come from a stream; what subqueries read does not count.
pub(crate) fn is_streaming(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => StreamLeaf::of(scan).is_some(),
        other => other.inputs().into_iter().any(is_streaming),
    }
}

/// True if the plan or one of its subqueries reads a stream.
pub(crate) fn touches_stream(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The visitor returns no errors.
    let _visited = plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if StreamLeaf::of(scan).is_some());
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    found
}
