//! Queries inside actix systems of the caller.

use std::sync::mpsc;

use actix::prelude::*;
use weir_runtime::*;

use crate::parts::{Ledger, Numbers};
use crate::{config, pipeline};

#[test]
fn two_systems_one_after_the_other_run_queries() {
    for _ in 0..2 {
        let ledger = Ledger::default();
        System::new().block_on(async {
            let query = StreamingQuery::start(pipeline(Numbers::up_to(30), &ledger), config(None))
                .await
                .expect("starts");
            query.await_termination().await.expect("ends well");
        });
        assert_eq!(ledger.rows().len(), 30);
    }
}

#[test]
fn two_queries_in_one_system_share_nothing() {
    let (a, b) = (Ledger::default(), Ledger::default());
    System::new().block_on(async {
        let first = StreamingQuery::start(pipeline(Numbers::up_to(30), &a), config(None))
            .await
            .expect("starts");
        let second = StreamingQuery::start(pipeline(Numbers::up_to(50), &b), config(None))
            .await
            .expect("starts");
        first.await_termination().await.expect("ends well");
        second.await_termination().await.expect("ends well");
        assert_ne!(first.id(), second.id());
    });
    assert_eq!((a.rows().len(), b.rows().len()), (30, 50));
}

struct Watcher(mpsc::Sender<QueryEvent>);

impl Actor for Watcher {
    type Context = Context<Self>;
}

impl Handler<QueryEvent> for Watcher {
    type Result = ();

    fn handle(&mut self, event: QueryEvent, _: &mut Self::Context) {
        self.0.send(event).expect("the test listens");
    }
}

#[test]
fn actor_listens_and_asks_the_query_by_address() {
    let (sender, events) = mpsc::channel();
    System::new().block_on(async {
        let watcher = Watcher(sender).start();
        let listener: std::sync::Arc<dyn QueryListener> =
            std::sync::Arc::new(RecipientListener(watcher.recipient()));
        let config = QueryConfig {
            listeners: vec![listener],
            trigger: Trigger::Default,
            ..config(None)
        };
        let query = StreamingQuery::start(pipeline(Numbers::up_to(30), &Ledger::default()), config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        let progress = query
            .addr()
            .send(GetLastProgress)
            .await
            .expect("alive")
            .expect("an epoch");
        assert_eq!(progress.num_input_rows, 30);
        query.stop().await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    });
    let kinds: Vec<_> = events
        .try_iter()
        .map(|event| std::mem::discriminant(&event))
        .collect();
    assert_eq!(kinds.len(), 3, "started, progress, terminated");
}

#[test]
fn stopping_the_system_ends_the_query_with_a_reason() {
    let query = System::new().block_on(async {
        let config = QueryConfig {
            trigger: Trigger::Default,
            ..config(None)
        };
        let query = StreamingQuery::start(pipeline(Numbers::up_to(30), &Ledger::default()), config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        System::current().stop();
        tokio::time::timeout(std::time::Duration::from_secs(5), query.await_termination())
            .await
            .expect("ends")
            .expect_err("not by itself");
        query
    });
    assert!(!query.is_active());
    assert_eq!(query.exception().expect("a reason").fault(), Fault::Killed);
}
