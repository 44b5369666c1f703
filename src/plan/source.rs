//! Leaves become sources; the same leaf twice is one source that two operators read, with the columns that either needs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{LogicalPlan, TableScan, TableSource};
use weir_operators::{Expression, project};
use weir_runtime::{Result, Stream, WeirError};

use super::{Planner, StreamLeaf};

/// Address of a leaf; a query's plan keeps it alive.
type LeafKey = usize;

/// The sources of a topology under construction.
#[derive(Default)]
pub(super) struct Sources {
    /// Columns that scans of a leaf want, all together.
    wanted: HashMap<LeafKey, BTreeSet<usize>>,
    made: HashMap<LeafKey, Stream>,
}

fn key(leaf: &StreamLeaf) -> LeafKey {
    std::ptr::from_ref(leaf).addr()
}

impl Sources {
    /// The sources of a plan, none of them made yet.
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let mut wanted: HashMap<LeafKey, BTreeSet<usize>> = HashMap::new();
        // The visitor returns no errors.
        let _visited = plan.apply(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(leaf) = StreamLeaf::of(scan)
            {
                let columns = wanted.entry(key(leaf)).or_default();
                match &scan.projection {
                    Some(projection) => columns.extend(projection),
                    None => columns.extend(0..leaf.schema().fields().len()),
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Self {
            wanted,
            made: HashMap::new(),
        }
    }

    /// The columns the leaf's source should read; `None` if it reads all. A source reads at least one column, from which the
    /// number of rows follows.
    fn columns(&self, leaf: &StreamLeaf) -> Result<Option<SchemaRef>> {
        let schema = leaf.schema();
        let mut columns: Vec<usize> = self
            .wanted
            .get(&key(leaf))
            .map(|set| set.iter().copied().collect())
            .unwrap_or_default();
        if columns.is_empty() && !schema.fields().is_empty() {
            columns.push(0);
        }
        if !leaf.prunable || columns.len() == schema.fields().len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(schema.project(&columns)?)))
    }
}

impl Planner<'_> {
    pub(super) fn source(&mut self, scan: &TableScan) -> Result<Stream> {
        let leaf = StreamLeaf::of(scan).ok_or_else(|| {
            WeirError::internal(format!("table '{}' is not a stream", scan.table_name))
        })?;
        let stream = match self.sources.made.get(&key(leaf)) {
            Some(stream) => *stream,
            None => {
                let source = leaf.source(self.sources.columns(leaf)?)?;
                let id = leaf.name.clone().unwrap_or_else(|| self.id("source"));
                let stream = self.builder.boxed_source(id, source);
                self.sources.made.insert(key(leaf), stream);
                stream
            }
        };
        self.select(scan, stream)
    }

    /// The columns of the scan, where the source gives others as well.
    fn select(&mut self, scan: &TableScan, stream: Stream) -> Result<Stream> {
        let (given, wanted) = (
            self.builder.schema(stream),
            scan.projected_schema.as_arrow(),
        );
        let same = given.fields().len() == wanted.fields().len()
            && given
                .fields()
                .iter()
                .zip(wanted.fields())
                .all(|(a, b)| a.name() == b.name());
        if same {
            return Ok(stream);
        }
        let columns = wanted.fields().iter().map(|field| {
            let index = given.index_of(field.name()).map_err(|_| {
                WeirError::internal(format!(
                    "source of '{}' does not give column '{}'",
                    scan.table_name,
                    field.name()
                ))
            })?;
            Ok((
                field.name().clone(),
                Expression::column(field.name(), index),
            ))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let id = self.id("project");
        Ok(self.builder.operator(id, [stream], project(columns)))
    }
}
