//! The measured queries: as streams, and in batch for comparison.

use std::path::Path;

use weir::prelude::*;

/// Columns of a bid.
pub(crate) const BIDS: &str = "bid_id BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING";

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bench {
    A,
    B,
    C,
    D,
    E,
    G,
    H,
}

const TUMBLING: &str =
    "SELECT window.start AS w, auction, count(*) AS n, sum(price) AS s, avg(price) AS a
    FROM bids GROUP BY window(date_time, '10 seconds'), auction";
const TOTALS: &str = "SELECT bidder, count(*) AS n, sum(price) AS s FROM bids GROUP BY bidder";
const SESSIONS: &str = "SELECT session_window.start AS w, bidder, count(*) AS n, sum(price) AS s
    FROM bids GROUP BY session_window(date_time, '10 seconds'), bidder";
const SLIDING: &str = "SELECT window.start AS w, auction, count(*) AS n
    FROM bids GROUP BY window(date_time, '10 seconds', '2 seconds'), auction";

impl Bench {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "a" => Self::A,
            "b" => Self::B,
            "c" => Self::C,
            "d" => Self::D,
            "e" => Self::E,
            "g" => Self::G,
            "h" => Self::H,
            _ => return None,
        })
    }

    /// Where below the data its input is.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::A => "bids_json",
            _ => "bids_parquet",
        }
    }

    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::C | Self::D => "update",
            _ => "append",
        }
    }

    /// Columns that make a row of an update unique.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::C => &["w", "auction"],
            Self::D => &["bidder"],
            _ => &[],
        }
    }

    /// Columns whose sums are compared.
    pub(crate) fn sums(self) -> &'static [&'static str] {
        match self {
            Self::A => &["bid_id"],
            Self::B | Self::C | Self::D | Self::G => &["n", "s"],
            Self::E => &["bidder", "auction"],
            Self::H => &["n", "auction"],
        }
    }

    /// The stream over the files of `input`.
    pub(crate) async fn frame(
        self,
        session: &Session,
        input: &Path,
        files: u64,
    ) -> Result<DataFrame> {
        let reader = session
            .read_stream()
            .schema(BIDS)
            .option("maxFilesPerTrigger", files);
        let path = input.display().to_string();
        if self == Self::A {
            return reader.json(&path)?.filter("price > 200000")?.select_expr(&[
                "bid_id",
                "auction",
                "bidder",
                "CAST(price AS DOUBLE) * 0.908 AS price_eur",
                "channel",
                "date_time",
            ]);
        }
        let bids = reader.parquet(&path)?;
        let bids = match self {
            Self::D => bids,
            _ => bids.with_watermark("date_time", "10 seconds")?,
        };
        if self == Self::E {
            let keys = ["bidder", "auction", "window(date_time, '10 seconds') AS w"];
            return bids
                .select_expr(&keys)?
                .drop_duplicates(&["bidder", "auction", "w"]);
        }
        bids.create_or_replace_temp_view("bids")?;
        session.sql(self.sql()).await
    }

    fn sql(self) -> &'static str {
        match self {
            Self::B | Self::C => TUMBLING,
            Self::D => TOTALS,
            Self::G => SESSIONS,
            _ => SLIDING,
        }
    }

    /// The same over the view `bids` of bounded rows, in the words of batch SQL: number of rows and the sums, one row.
    pub(crate) fn in_batch(self) -> &'static str {
        match self {
            Self::A => "SELECT count(*) AS total, sum(bid_id) AS x, CAST(0 AS BIGINT) AS y FROM bids WHERE price > 200000",
            Self::B | Self::C => {
                "SELECT count(*) AS total, sum(n) AS x, sum(s) AS y FROM (
                 SELECT floor(unix_micros(date_time) / 10000000) AS w, auction, count(*) AS n, sum(price) AS s
                 FROM bids GROUP BY 1, 2) q"
            }
            Self::D => {
                "SELECT count(*) AS total, sum(n) AS x, sum(s) AS y FROM (
                 SELECT bidder, count(*) AS n, sum(price) AS s FROM bids GROUP BY bidder) q"
            }
            Self::E => {
                "SELECT count(*) AS total, sum(bidder) AS x, sum(auction) AS y FROM (
                 SELECT DISTINCT bidder, auction, floor(unix_micros(date_time) / 10000000) AS w FROM bids) q"
            }
            Self::G => {
                "SELECT sum(fresh) AS total, count(*) AS x, sum(price) AS y FROM (
                 SELECT price, CASE WHEN t - lag(t) OVER (PARTITION BY bidder ORDER BY t) <= 10000000
                                    THEN CAST(0 AS BIGINT) ELSE CAST(1 AS BIGINT) END AS fresh
                 FROM (SELECT bidder, price, unix_micros(date_time) AS t FROM bids) u) q"
            }
            Self::H => {
                "SELECT count(*) AS total, sum(n) AS x, sum(auction) AS y FROM (
                 SELECT w, auction, count(*) AS n FROM (
                   SELECT auction, floor(unix_micros(date_time) / 2000000) - k AS w
                   FROM bids CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS t(k)) u
                 GROUP BY w, auction) q"
            }
        }
    }
}
