//! Files as a table that leaves out what a query does not need: columns nobody asks for, and directories whose names say that no
//! row in them is wanted.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use weir_connectors::file::source::{FileSource, FileSourceConfig};

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

    /// The directories in which no row fits all the filters.
    fn unwanted(&self, state: &dyn Session, filters: &[Expr]) -> Result<HashSet<PathBuf>> {
        let mut unwanted = HashSet::new();
        let filters = filters
            .iter()
            .filter(|filter| self.is_about_directories(filter));
        for filter in filters {
            let columns: Vec<&str> = filter
                .column_refs()
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            let partitions = self.config.partitions(&columns).map_err(external)?;
            let Some(values) = partitions.values else {
                continue;
            };
            let schema = DFSchema::try_from(values.schema())?;
            let plain = filter.clone();
            let test = state.create_physical_expr(unqualified(plain)?, &schema)?;
            // What fails is told when rows are read.
            let Ok(fits) = test
                .evaluate(&values)
                .and_then(|fits| fits.into_array(values.num_rows()))
            else {
                continue;
            };
            let Some(fits) = fits.as_any().downcast_ref::<BooleanArray>() else {
                continue;
            };
            let left_out = partitions.directories.into_iter().enumerate();
            unwanted.extend(
                left_out
                    .filter(|(row, _)| fits.is_null(*row) || !fits.value(*row))
                    .map(|(_, directory)| directory),
            );
        }
        Ok(unwanted)
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
        let unwanted = self.unwanted(state, filters)?;
        let wanted = self.wanted(projection);
        let mut config = self.config.clone().leave_out(unwanted);
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
