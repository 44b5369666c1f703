//! A progress bar on the terminal for queries that end by themselves.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::streams::StreamingQuery;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(200);

/// Shows how much is done until the query ends. Nothing is shown if standard error is no terminal.
pub(super) fn show(query: &StreamingQuery) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let query = query.clone();
    tokio::spawn(async move {
        let bar = bar();
        bar.set_message(query.name().unwrap_or("query").to_owned());
        while query.is_active() {
            update(&bar, &query);
            tokio::time::sleep(TICK).await;
        }
        update(&bar, &query);
        bar.finish();
    });
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {prefix} {per_sec} eta {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn update(bar: &ProgressBar, query: &StreamingQuery) {
    let rows: u64 = query
        .recent_progress()
        .iter()
        .map(|progress| progress.num_input_rows)
        .sum();
    match query.backlog() {
        Some(backlog) => {
            bar.set_length(backlog.total);
            bar.set_position(backlog.done);
            bar.set_prefix(format!("{}, {rows} rows", backlog.unit));
        }
        None => {
            bar.set_position(rows);
            bar.set_prefix("rows");
        }
    }
}
