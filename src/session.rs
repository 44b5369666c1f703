//! The session: where streams and tables are opened, SQL is planned, and running queries are found.

mod conf;
mod file_conf;
mod store_conf;
mod tables;
mod udf;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use weir_runtime::{Result, WeirError};

pub(crate) use conf::{
    CHECKPOINT, Conf, KAFKA_DISALLOWED, NEW_AGGREGATES, PROGRESS_BAR, TIME_ZONE,
};
pub use udf::ScalarFn;

use crate::dataframe::DataFrame;
use crate::plan::plan_error;
use crate::read::{DataFrameReader, DataStreamReader};
use crate::streams::StreamingQueryManager;

/// The entry point. Clones are the same session; it ends with its last clone and frame, and then its queries stop.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    context: SessionContext,
    conf: Conf,
    streams: StreamingQueryManager,
    parallelism: usize,
    /// Numbers for names of anonymous tables.
    anonymous: AtomicU64,
}

/// Settings of a session before it exists.
#[derive(Default)]
pub struct SessionBuilder {
    settings: Vec<(String, String)>,
    parallelism: Option<usize>,
}

impl std::fmt::Debug for SessionBuilder {
    /// Without values: some are nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<&String> = self.settings.iter().map(|(key, _)| key).collect();
        f.debug_struct("SessionBuilder")
            .field("settings", &keys)
            .field("parallelism", &self.parallelism)
            .finish()
    }
}

impl SessionBuilder {
    /// A setting by Spark's name, such as `spark.sql.streaming.checkpointLocation`.
    #[must_use]
    pub fn config(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// The zone in which local times are read and shown (`spark.sql.session.timeZone`): UTC, which is the default whatever the
    /// machine's zone is, an offset such as `+01:00`, or a region such as `Europe/Rome`.
    #[must_use]
    pub fn time_zone(self, zone: &str) -> Self {
        self.config(TIME_ZONE, zone)
    }

    /// Subtasks per task of a query, and threads of batch queries; the number of cores unless set.
    #[must_use]
    pub fn parallelism(mut self, subtasks: usize) -> Self {
        self.parallelism = Some(subtasks);
        self
    }

    /// The session.
    ///
    /// # Errors
    /// If a setting has a value that is not allowed, or the parallelism is 0.
    pub fn build(self) -> Result<Session> {
        if self.parallelism == Some(0) {
            return Err(WeirError::config("parallelism is 0, allowed: 1 or more"));
        }
        let conf = Conf::default();
        for (key, value) in &self.settings {
            conf.set(key, value)?;
        }
        let parallelism = self
            .parallelism
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let zone = conf.get(TIME_ZONE).unwrap_or_default();
        let context = crate::sql::session_context(&zone, parallelism).map_err(plan_error)?;
        let streams = StreamingQueryManager::default();
        let inner = Inner {
            context,
            conf,
            streams,
            parallelism,
            anonymous: AtomicU64::new(0),
        };
        Ok(Session {
            inner: Arc::new(inner),
        })
    }
}

/// The settings of a session at run time. Queries take them over when they start.
pub struct RuntimeConf<'a> {
    session: &'a Session,
}

impl RuntimeConf<'_> {
    /// The value of a setting, or its default; `None` if it is unknown and not set.
    pub fn get(&self, key: &str) -> Option<String> {
        self.session.inner.conf.get(key)
    }

    /// Sets a value for everything planned and started from now on.
    ///
    /// # Errors
    /// If the setting is known and the value is not allowed.
    pub fn set(&self, key: &str, value: impl ToString) -> Result<()> {
        self.session.inner.conf.set(key, &value.to_string())?;
        if key.eq_ignore_ascii_case(TIME_ZONE) {
            let state = self.session.inner.context.state_ref();
            state.write().config_mut().options_mut().execution.time_zone = Some(value.to_string());
        }
        Ok(())
    }
}

impl Session {
    /// Settings of a new session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// A session with default settings.
    ///
    /// # Errors
    /// None that follows from the defaults.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Opens a stream.
    pub fn read_stream(&self) -> DataStreamReader {
        DataStreamReader::new(self.clone())
    }

    /// Opens bounded data.
    pub fn read(&self) -> DataFrameReader {
        DataFrameReader::new(self.clone())
    }

    /// The result of one SELECT in Spark SQL over tables and views of this session, streams among them.
    ///
    /// # Errors
    /// Text that is no query, names that do not exist, types that do not fit.
    pub async fn sql(&self, query: &str) -> Result<DataFrame> {
        let plan = crate::sql::plan_query(&self.inner.context, query)
            .await
            .map_err(plan_error)?;
        Ok(DataFrame::new(self.clone(), plan))
    }

    /// A table or view by name, in any letter case.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub async fn table(&self, name: &str) -> Result<DataFrame> {
        let plan = tables::scan(&self.inner.context, name).await?;
        Ok(DataFrame::new(self.clone(), plan))
    }

    /// A bounded frame over batches of one schema.
    ///
    /// # Errors
    /// If there is no batch to take the schema from, or the schemas differ.
    pub fn create_dataframe(
        &self,
        batches: impl IntoIterator<Item = RecordBatch>,
    ) -> Result<DataFrame> {
        let batches: Vec<RecordBatch> = batches.into_iter().collect();
        let schema = batches.first().map(RecordBatch::schema);
        let schema = schema.ok_or_else(|| {
            WeirError::plan("a frame needs at least one batch, which may be empty, for its schema")
        })?;
        let table = MemTable::try_new(schema, vec![batches]).map_err(plan_error)?;
        self.frame_over("rows", Arc::new(table))
    }

    /// A frame over a table that has no name.
    pub(crate) fn frame_over(
        &self,
        kind: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<DataFrame> {
        let plan = tables::scan_provider(&self.anonymous_name(kind), table)?;
        Ok(DataFrame::new(self.clone(), plan))
    }

    /// The queries of this session.
    pub fn streams(&self) -> &StreamingQueryManager {
        &self.inner.streams
    }

    /// The settings.
    pub fn conf(&self) -> RuntimeConf<'_> {
        RuntimeConf { session: self }
    }

    /// Names of the tables and views, sorted.
    pub fn table_names(&self) -> Vec<String> {
        tables::names(&self.inner.context)
    }

    /// Removes a view or table; false if there was none.
    ///
    /// # Errors
    /// If the catalog refuses.
    pub fn drop_temp_view(&self, name: &str) -> Result<bool> {
        let Some(found) = tables::find(&self.inner.context, name) else {
            return Ok(false);
        };
        Ok(self
            .inner
            .context
            .deregister_table(tables::reference(&found))
            .map_err(plan_error)?
            .is_some())
    }

    /// The DataFusion context, for everything this API does not cover: catalogs, object stores, own table providers.
    pub fn context(&self) -> &SessionContext {
        &self.inner.context
    }

    pub(crate) fn settings(&self) -> &Conf {
        &self.inner.conf
    }

    pub(crate) fn parallelism(&self) -> usize {
        self.inner.parallelism
    }

    pub(crate) fn downgrade(&self) -> WeakSession {
        WeakSession(Arc::downgrade(&self.inner))
    }

    /// A table name that is not in use.
    pub(crate) fn anonymous_name(&self, kind: &str) -> String {
        format!(
            "{kind}_{}",
            self.inner.anonymous.fetch_add(1, Ordering::Relaxed)
        )
    }

    /// Makes the plan of a frame a view.
    pub(crate) fn add_view(&self, name: &str, frame: &DataFrame) -> Result<()> {
        let view = ViewTable::new(frame.plan().clone(), None);
        self.add_table(name, Arc::new(view))
    }

    /// Adds or replaces a table.
    pub(crate) fn add_table(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        self.drop_temp_view(name)?;
        self.inner
            .context
            .register_table(tables::reference(name), table)
            .map_err(plan_error)?;
        Ok(())
    }
}

/// A session that queries may use without keeping it alive.
#[derive(Clone)]
pub(crate) struct WeakSession(std::sync::Weak<Inner>);

impl WeakSession {
    pub(crate) fn upgrade(&self) -> Result<Session> {
        let inner = self
            .0
            .upgrade()
            .ok_or_else(|| WeirError::killed("the session"))?;
        Ok(Session { inner })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("tables", &self.table_names())
            .finish_non_exhaustive()
    }
}
