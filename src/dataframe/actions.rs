//! Actions: they compute at once, which only bounded frames can.

use arrow::array::RecordBatch;
use weir_connectors::console::{ShowOptions, show_string};
use weir_runtime::{Result, WeirError};

use super::DataFrame;
use crate::plan::{data_error, touches_stream};
use crate::session::TIME_ZONE;

impl DataFrame {
    /// All rows.
    ///
    /// # Errors
    /// On a stream; else what running the query reports.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        self.refuse_stream("collect")?;
        let frame = datafusion::dataframe::DataFrame::new(
            self.session().context().state(),
            self.plan().clone(),
        );
        frame.collect().await.map_err(data_error)
    }

    /// Number of rows.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub async fn count(&self) -> Result<usize> {
        self.refuse_stream("count")?;
        let frame = datafusion::dataframe::DataFrame::new(
            self.session().context().state(),
            self.plan().clone(),
        );
        frame.count().await.map_err(data_error)
    }

    /// The first `rows` rows.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub async fn take(&self, rows: usize) -> Result<Vec<RecordBatch>> {
        self.refuse_stream("take")?;
        self.limit(rows)?.collect().await
    }

    /// The first row, if there is one.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub async fn first(&self) -> Result<Option<RecordBatch>> {
        self.refuse_stream("first")?;
        Ok(self
            .take(1)
            .await?
            .into_iter()
            .find(|batch| batch.num_rows() > 0))
    }

    /// True if there is no row.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub async fn is_empty(&self) -> Result<bool> {
        self.refuse_stream("is_empty")?;
        Ok(self.first().await?.is_none())
    }

    /// The first `rows` rows as Spark's `show` prints them.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub async fn show_text(&self, rows: usize) -> Result<String> {
        self.refuse_stream("show")?;
        let batches = self.take(rows.saturating_add(1)).await?;
        let zone = self.session().settings().get(TIME_ZONE).unwrap_or_default();
        let options = ShowOptions {
            num_rows: rows,
            ..ShowOptions::default()
        }
        .with_time_zone(&zone)?;
        show_string(&self.schema(), &batches, &options)
    }

    /// Prints the first 20 rows to standard output.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    #[expect(clippy::print_stdout, reason = "printing is what the method is for")]
    pub async fn show(&self) -> Result<()> {
        println!("{}", self.show_text(20).await?);
        Ok(())
    }

    fn refuse_stream(&self, action: &str) -> Result<()> {
        if !touches_stream(self.plan()) {
            return Ok(());
        }
        let message = format!(
            "queries with streaming sources must be executed with write_stream().start(): '{action}' needs all rows, and a stream has no end"
        );
        Err(WeirError::plan(message).with_condition("UNSUPPORTED_STREAMING_OPERATION"))
    }
}
