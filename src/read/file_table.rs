//! Files as a table that leaves out what a query does not need: columns nobody asks for, and directories whose names say that no
//! row in them is wanted.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use weir_connectors::file::source::{FileSource, FileSourceConfig, PartitionRows};

use super::source_table::SourceTable;
use super::stream::prunable;

/// Files of one format below one path.
pub(super) struct FileTable {
    config: FileSourceConfig,
    schema: SchemaRef,
    readers: usize,
}

impl FileTable {
    /// With more than one reader, rows of different files come in any order.
    pub(super) fn new(config: FileSourceConfig, schema: SchemaRef, readers: usize) -> Self {
        Self {
            config,
            schema,
            readers,
        }
    }

    /// Whether a condition is about nothing but names of directories, always with the same answer.
    fn is_about_directories(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        let is_known = |name: &str| {
            let mut known = self.config.partition_columns().iter();
            known.any(|known| known.eq_ignore_ascii_case(name))
        };
        !columns.is_empty()
            && !filter.is_volatile()
            && columns.iter().all(|column| is_known(&column.name))
    }

    /// What the filters say about names of directories.
    fn conditions(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<Condition>> {
        let filters = filters
            .iter()
            .filter(|filter| self.is_about_directories(filter));
        let condition = |filter: &Expr| -> Result<Condition> {
            let columns = filter.column_refs();
            let columns: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let rows = self.config.partition_rows(&columns).map_err(external)?;
            let schema = DFSchema::try_from(Arc::clone(rows.schema()))?;
            let test = state.create_physical_expr(unqualified(filter.clone())?, &schema)?;
            Ok(Condition { rows, test })
        };
        filters.map(condition).collect()
    }

    /// The columns to read: those asked for, where reading fewer changes nothing else.
    fn wanted(&self, projection: Option<&Vec<usize>>) -> Option<Vec<usize>> {
        let projection = projection.filter(|_| prunable(&self.config))?;
        // Rows are counted by a column.
        Some(match projection.as_slice() {
            [] => vec![0],
            columns => columns.to_vec(),
        })
    }
}

/// A filter that the name of a directory may decide.
struct Condition {
    rows: PartitionRows,
    test: Arc<dyn PhysicalExpr>,
}

impl Condition {
    /// Whether rows of the directory may fit. What fails is told when rows are read.
    fn may_hold(&self, directory: &Path) -> bool {
        let Some(row) = self.rows.of(directory) else {
            return true;
        };
        let fits = self.test.evaluate(&row);
        let Ok(fits) = fits.and_then(|fits| fits.into_array(row.num_rows())) else {
            return true;
        };
        let fits = fits.as_any().downcast_ref::<BooleanArray>();
        fits.is_none_or(|fits| fits.is_valid(0) && fits.value(0))
    }
}

/// The condition with columns by their names alone.
fn unqualified(filter: Expr) -> Result<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let plain = filter.transform(|part| {
        Ok(match part {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(plain.data)
}

fn external(error: weir_runtime::WeirError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl fmt::Debug for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTable")
            .field("path", &self.config.path)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let how = |filter: &&Expr| match self.is_about_directories(filter) {
            // Files that do not lie in such a directory may have the column.
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(how).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (config, conditions) = (self.config.clone(), self.conditions(state, filters)?);
        let found = tokio::task::spawn_blocking(move || {
            config.with_files_found(|directory| conditions.iter().all(|c| c.may_hold(directory)))
        });
        let found = found
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let mut config = found.map_err(external)?;
        let wanted = self.wanted(projection);
        let mut schema = Arc::clone(&self.schema);
        if let Some(wanted) = &wanted {
            schema = Arc::new(schema.project(wanted)?);
            config.schema = Arc::clone(&schema);
        }
        let table = SourceTable::new(schema, self.readers, move || {
            Ok(Box::new(FileSource::new(config.clone())?))
        });
        let rest = match (&wanted, projection) {
            (Some(_), Some(projection)) if projection.is_empty() => Some(projection),
            (Some(_), _) => None,
            (None, projection) => projection,
        };
        let table = table.table().map_err(external)?;
        table.scan(state, rest, &[], limit).await
    }
}
