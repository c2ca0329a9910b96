//! Tests that no statement on a message's way grows with the history.

use super::schema::open_memory;
use super::{inbox, outbox, row, sessions, turns};

/// Whatever the size of the history, a message's way touches few rows.
#[test]
fn no_statement_on_a_messages_way_looks_through_a_table() {
    let connection = open_memory().unwrap();
    for (sql, index) in [
        (inbox::SAME_KEY, "inbox_dedup"),
        (row::WAITING, "inbox_open"),
        (row::FIRST, "inbox_open"),
        (outbox::OUTGOING, "PRIMARY KEY"),
        (outbox::QUEUED, "outbox_queued"),
        (turns::HISTORY, "turns_order"),
        (turns::DIALOGUE, "turns_order"),
        (sessions::ACTIVE, "PRIMARY KEY"),
        (sessions::FIRST_SAID, "turns_order"),
        (sessions::LAST_SAID, "turns_order"),
    ] {
        let mut explained = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let mut rows = explained.raw_query();
        let mut plan: Vec<String> = Vec::new();
        while let Some(step) = rows.next().unwrap() {
            plan.push(step.get(3).unwrap());
        }
        assert!(
            plan.iter().any(|step| step.contains(index)),
            "{sql}: {plan:?}"
        );
        for step in &plan {
            // By channel and conversation alone the index leads through the whole conversation.
            assert!(
                !step.contains("turns_order") || step.contains("<expr>"),
                "{sql}: {plan:?}"
            );
            assert!(
                !step.starts_with("SCAN") && !step.contains("TEMP B-TREE"),
                "{sql}: {plan:?}"
            );
        }
    }
}
