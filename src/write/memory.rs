//! The memory sink's table in SQL: every query over it sees the epochs committed so far.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableType};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use weir_connectors::memory::MemoryTable;

/// A [`MemoryTable`] as DataFusion sees it.
pub(super) struct MemoryTableProvider {
    table: MemoryTable,
    schema: SchemaRef,
}

impl MemoryTableProvider {
    /// `schema` is what the query promises; the sink knows its own only when it runs.
    pub(super) fn new(table: MemoryTable, schema: SchemaRef) -> Self {
        Self {
            table,
            schema: weir_connectors::file::decode::nullable_schema(&schema),
        }
    }

    fn batches(&self) -> Result<Vec<RecordBatch>> {
        let batches = self.table.batches().into_iter();
        let same = batches
            .map(|batch| RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec()));
        Ok(same.collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Debug for MemoryTableProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTableProvider")
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for MemoryTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![self.batches()?])?;
        table.scan(state, projection, filters, limit).await
    }
}
