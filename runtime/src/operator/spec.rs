//! How to make the parallel instances of an operator, and what is known of it before it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use weir_state::TableSpec;

use super::{Operator, OperatorContext};
use crate::error::{Result, WeirError};
use crate::message::ChangelogMode;

type SchemaFn = dyn Fn(&[SchemaRef]) -> Result<SchemaRef> + Send + Sync;
type CreateFn = dyn Fn(&OperatorContext) -> Result<Box<dyn Operator>> + Send + Sync;

/// How to make the parallel instances of an operator, and what is known of it before it runs.
#[derive(Clone)]
pub struct OperatorSpec {
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) stateful: bool,
    pub(crate) changelog: ChangelogMode,
    pub(crate) event_time: bool,
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) watermark_epochs: bool,
    pub(crate) state_name: String,
    schema: Arc<SchemaFn>,
    create: Arc<CreateFn>,
}

impl OperatorSpec {
    /// A stateless operator of this kind (`filter`, `project`, …) whose output has the schema of its first input.
    /// `create` is called once per subtask and generation.
    pub fn new<O, F>(kind: impl Into<String>, create: F) -> Self
    where
        O: Operator + 'static,
        F: Fn(&OperatorContext) -> Result<O> + Send + Sync + 'static,
    {
        Self {
            kind: kind.into(),
            detail: String::new(),
            params: BTreeMap::new(),
            stateful: false,
            changelog: ChangelogMode::AppendOnly,
            event_time: false,
            tables: Vec::new(),
            watermark_epochs: false,
            state_name: String::new(),
            schema: Arc::new(|inputs: &[SchemaRef]| {
                inputs
                    .first()
                    .cloned()
                    .ok_or_else(|| WeirError::plan("an operator needs an input"))
            }),
            create: Arc::new(move |context| Ok(Box::new(create(context)?))),
        }
    }

    /// Output schema as a function of the input schemas.
    #[must_use]
    pub fn with_schema_fn<F>(mut self, schema: F) -> Self
    where
        F: Fn(&[SchemaRef]) -> Result<SchemaRef> + Send + Sync + 'static,
    {
        self.schema = Arc::new(schema);
        self
    }

    /// A fixed output schema.
    #[must_use]
    pub fn with_schema(self, schema: SchemaRef) -> Self {
        self.with_schema_fn(move |_| Ok(Arc::clone(&schema)))
    }

    /// Text for `explain`.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Declares state: the operator must keep its id, kind and these parameters for its checkpoint to be accepted.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// Declares state tables, which [`Operator::open`] gets in this order.
    #[must_use]
    pub fn with_tables(mut self, tables: Vec<TableSpec>) -> Self {
        self.stateful = true;
        self.tables = tables;
        self
    }

    /// Asks for an epoch without new rows when the watermark has moved and no rows wait.
    #[must_use]
    pub fn with_watermark_epochs(mut self) -> Self {
        self.watermark_epochs = true;
        self
    }

    /// Name under which progress reports the state (Spark's: `stateStoreSave`, `dedupe`, …); the kind if never called.
    #[must_use]
    pub fn with_state_name(mut self, name: impl Into<String>) -> Self {
        self.state_name = name.into();
        self
    }

    /// A parameter that decides what the state means (keys, window size, delay, …).
    #[must_use]
    pub fn with_param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// Declares that the output changes or removes earlier rows.
    #[must_use]
    pub fn with_changelog(mut self, changelog: ChangelogMode) -> Self {
        self.changelog = changelog;
        self
    }

    /// Declares that the operator reports event times the watermark follows ([`Operator::take_event_times`]).
    #[must_use]
    pub fn with_event_times(mut self) -> Self {
        self.event_time = true;
        self
    }

    /// Kind of the operator.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// State tables of each subtask, in the order in which [`Operator::open`] gets them.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Output schema for these inputs.
    ///
    /// # Errors
    /// If the inputs do not fit the operator.
    pub fn schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        (self.schema)(inputs)
    }

    /// Makes the instance of one subtask.
    ///
    /// # Errors
    /// Whatever the constructor reports.
    pub fn create(&self, context: &OperatorContext) -> Result<Box<dyn Operator>> {
        (self.create)(context)
    }
}

impl fmt::Debug for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorSpec")
            .field("kind", &self.kind)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}
