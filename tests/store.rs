//! The store on real files and in memory: what is committed stays, what is refused leaves nothing.

use std::sync::Arc;

use korvun::base::clock::SystemClock;
use korvun::domain::ids::{ChannelName, Conversation};
use korvun::domain::limits::Limits;
use korvun::domain::message::{ChatKind, Inbound, Language, Outcome, Role};
use korvun::store::{Accepted, Audience, Claim, Excuse, Finish, Finished, Place, Reply, Store};

fn inbound(id: &str, text: &str) -> Inbound {
    Inbound {
        conversation: Conversation::new(&ChannelName::new("webhook"), id),
        dedup: None,
        sender_id: "7".to_owned(),
        sender_name: "Ana".to_owned(),
        text: text.to_owned(),
        attachment: None,
        language: Language::Es,
        chat: ChatKind::Program,
        reply_to: None,
    }
}

fn busy() -> Excuse {
    Excuse {
        text: "busy".to_owned(),
        sender_name: "Korvun".to_owned(),
    }
}

#[test]
fn smoke() {
    let dir = tempfile::tempdir().expect("dir");
    for place in [Place::Memory, Place::File(dir.path().join("k/a.db"))] {
        let store = Store::open(&place, &Limits::default(), Arc::new(SystemClock)).expect("opens");
        let accepted = store
            .accept(&inbound("c", "hola"), Claim::IfIdle, &busy())
            .expect("accepts");
        let Accepted::New {
            work: Some(work), ..
        } = accepted
        else {
            panic!("{accepted:?}")
        };
        let finished = store
            .finish(
                work.row,
                Finish {
                    outcome: Outcome::Answered,
                    reply: Some(Reply {
                        role: Role::Assistant,
                        sender_name: "B".to_owned(),
                        brain: Some("b".to_owned()),
                        text: "buenas".to_owned(),
                    }),
                    audience: Audience::Public,
                },
            )
            .expect("finishes");
        let Finished::Closed {
            outgoing: Some(out),
            ..
        } = finished
        else {
            panic!("{finished:?}")
        };
        store.sent(out.row);
        let history = store
            .history(&work.conversation, i64::MAX, 20, Audience::Public)
            .expect("reads");
        assert_eq!(history.len(), 2);
        println!("{:?}", store.message(&work.message_id).expect("reads"));
        println!("{:?}", store.counts());
        store
            .delete_conversation(&work.conversation)
            .expect("deletes");
        store.sweep().expect("sweeps");
    }
}
