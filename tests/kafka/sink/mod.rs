//! The Kafka sink: its columns, its promises, and what becomes of them under crashes, kills and outages.

mod columns;
mod crash;
mod driver;
mod growing;
mod java;
mod kill;
mod limits;
mod outage;
mod protocol;
mod security;
mod shop;
mod through;
pub(crate) mod topics;

use crate::kafka_broker::Broker;

/// The broker that tests share.
fn servers() -> &'static str {
    Broker::shared().bootstrap()
}
