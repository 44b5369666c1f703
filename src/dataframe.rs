//! [`DataFrame`]: a table or stream that is described, not computed. Methods have Spark's names.

mod actions;
mod columns;
mod generate;
mod grouped;
mod rows;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;
use weir_runtime::{Result, WeirError};

pub use grouped::GroupedFrame;

use crate::expr::{analyzed, resolve};
use crate::plan::{is_streaming, plan_error};
use crate::session::Session;
use crate::types::type_name;
use crate::write::DataStreamWriter;

/// A lazy table. Over a stream it has the same methods as over bounded data; what a stream cannot do is refused when a query over
/// it starts, actions such as `collect` at once.
#[derive(Clone)]
pub struct DataFrame {
    session: Session,
    plan: LogicalPlan,
}

impl DataFrame {
    pub(crate) fn new(session: Session, plan: LogicalPlan) -> Self {
        Self { session, plan }
    }

    /// The logical plan.
    pub fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The session the frame belongs to.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// True if rows of the frame come from a stream.
    pub fn is_streaming(&self) -> bool {
        is_streaming(&self.plan)
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(self.plan.schema().as_arrow().clone())
    }

    /// Names of the columns.
    pub fn columns(&self) -> Vec<String> {
        self.plan
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The schema as Spark's `printSchema` prints it: a tree, one line per column or nested field.
    pub fn schema_text(&self) -> String {
        let mut text = String::from("root\n");
        for field in self.plan.schema().fields() {
            tree(
                &mut text,
                field.name(),
                field.data_type(),
                field.is_nullable(),
                1,
            );
        }
        text
    }

    /// Prints [`schema_text`](Self::schema_text) to standard output.
    #[expect(clippy::print_stdout, reason = "printing is what the method is for")]
    pub fn print_schema(&self) {
        print!("{}", self.schema_text());
    }

    /// The logical plan as text.
    pub fn explain(&self) -> String {
        self.plan.display_indent().to_string()
    }

    /// The frame under a name, to tell columns of two frames apart: `a.id = b.id`.
    ///
    /// # Errors
    /// None for ordinary names.
    pub fn alias(&self, name: &str) -> Result<DataFrame> {
        self.build(|builder| builder.alias(name))
    }

    /// Makes the frame a view of the session, for SQL; a view of the same name is replaced.
    ///
    /// # Errors
    /// If the name cannot be a table's.
    pub fn create_or_replace_temp_view(&self, name: &str) -> Result<()> {
        self.session.add_view(name, self)
    }

    /// Describes a query that writes this stream.
    pub fn write_stream(&self) -> DataStreamWriter {
        DataStreamWriter::new(self.clone())
    }

    /// The frame with another plan.
    fn with(&self, plan: LogicalPlan) -> Result<DataFrame> {
        Ok(Self {
            session: self.session.clone(),
            plan: analyzed(&self.session, plan)?,
        })
    }

    /// The frame with a plan that `step` builds on this one.
    fn build<F>(&self, step: F) -> Result<DataFrame>
    where
        F: FnOnce(LogicalPlanBuilder) -> datafusion::common::Result<LogicalPlanBuilder>,
    {
        let plan = step(LogicalPlanBuilder::from(self.plan.clone()))
            .and_then(LogicalPlanBuilder::build)
            .map_err(plan_error)?;
        self.with(plan)
    }

    fn resolve(&self, expr: Expr) -> Result<Expr> {
        resolve(&self.session, expr, &self.plan)
    }

    fn resolve_all(&self, exprs: impl IntoIterator<Item = Expr>) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.resolve(expr)).collect()
    }

    fn count_literal(rows: usize) -> Result<Expr> {
        let rows = i64::try_from(rows)
            .map_err(|_| WeirError::plan(format!("{rows} rows are too many")))?;
        Ok(Expr::Literal(ScalarValue::Int64(Some(rows)), None))
    }
}

impl std::fmt::Debug for DataFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DataFrame[{}]",
            crate::types::schema_ddl(self.plan.schema().as_arrow())
        )
    }
}

fn tree(text: &mut String, name: &str, data_type: &DataType, nullable: bool, depth: usize) {
    let kind = match data_type {
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(_) => "array".to_owned(),
        DataType::Map(_, _) => "map".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int16 => "short".to_owned(),
        DataType::Int8 => "byte".to_owned(),
        other => type_name(other).to_lowercase(),
    };
    let indent = " |   ".repeat(depth - 1);
    text.push_str(&format!(
        "{indent} |-- {name}: {kind} (nullable = {nullable})\n"
    ));
    match data_type {
        DataType::Struct(fields) => {
            for field in fields {
                tree(
                    text,
                    field.name(),
                    field.data_type(),
                    field.is_nullable(),
                    depth + 1,
                );
            }
        }
        DataType::List(item) => tree(
            text,
            "element",
            item.data_type(),
            item.is_nullable(),
            depth + 1,
        ),
        DataType::Map(entries, _) => {
            if let DataType::Struct(fields) = entries.data_type() {
                for (name, field) in ["key", "value"].iter().zip(fields) {
                    tree(
                        text,
                        name,
                        field.data_type(),
                        field.is_nullable(),
                        depth + 1,
                    );
                }
            }
        }
        _ => {}
    }
}
