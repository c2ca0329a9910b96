//! A run step by step, from its journal, and what holds for any run.

use super::*;
use crate::domain::audit::Rule;
use crate::domain::dice::Dice;

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn rules(lane: Lane) -> Rules {
    Rules {
        max_iterations: 3,
        observation_bytes: 40,
        ..Rules::new(
            names(&["time", "calc"]),
            names(&["time", "calc", "read_file"]),
            lane,
            3,
            &Limits::default(),
        )
    }
}

fn says(text: &str) -> Event {
    Event::Replied(Completion {
        text: text.to_owned(),
        left_out: 2,
        ..Completion::default()
    })
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Ok(serde_json::Map::new()),
    }
}

fn calls(all: &[ToolCall]) -> Event {
    Event::Replied(Completion {
        calls: all.to_vec(),
        ..Completion::default()
    })
}

fn fails(kind: FailureKind) -> Event {
    Event::Failed(Failure::new(kind, "as told"))
}

fn done(text: &str) -> Event {
    Event::Observed(Came::Done(text.to_owned()))
}

/// The step in a line: `ask`, `ask without tools`, `call 1 time {}`, `answer ...`, `failed ...`.
fn line(step: &Step) -> String {
    match step {
        Step::Ask(ask) => match ask.tools {
            Tools::Told => format!("ask {:?}", ask.lane),
            Tools::Withheld => "ask without tools".to_owned(),
        },
        Step::Call(asked) => {
            let over = if asked.budget == Budget::Spent {
                " over"
            } else {
                ""
            };
            format!("call {} {}{over}", asked.n, asked.call.name)
        }
        Step::Finish(End::Answer { text, .. }) => format!("answer {text}"),
        Step::Finish(End::Failed(failure)) => format!("failed {}", failure.kind.word()),
    }
}

/// Puts events to a run and gives its steps.
fn steps(run: &mut Run, events: Vec<Event>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| line(&run.next(event).step))
        .collect()
}

fn turns(run: &mut Run) -> Vec<Turn> {
    match run.next(Event::Begin).step {
        Step::Ask(ask) => ask.turns,
        other => panic!("{other:?} is no question"),
    }
}

fn spoken(by: Speaker, text: &str) -> Turn {
    Turn::Said(Said {
        by,
        text: text.to_owned(),
    })
}

const TIME: &str = "{\"tool\":\"time\",\"arguments\":{}}";

#[test]
fn runs_step_by_step() {
    use FailureKind as K;
    let native = || vec![call("a", "time"), call("b", "calc")];
    for (what, lane, events, expected) in [
        (
            "an answer",
            Lane::Native,
            vec![says("hello")],
            vec!["answer hello"],
        ),
        (
            "native calls in order",
            Lane::Native,
            vec![calls(&native()), done("12:00"), done("2"), says("It is 2.")],
            vec![
                "call 1 time",
                "call 2 calc",
                "ask Native",
                "answer It is 2.",
            ],
        ),
        (
            "calls in words",
            Lane::Text,
            vec![
                says(&format!("I look. {TIME} It is one.")),
                done("12:00"),
                says("noon"),
            ],
            vec!["call 1 time", "ask Text", "answer noon"],
        ),
        (
            "calls in words where they could be native",
            Lane::Native,
            vec![says(TIME), done("12:00"), says("noon")],
            vec!["call 1 time", "ask Native", "answer noon"],
        ),
        (
            "a tool that there is not, and one that is not announced",
            Lane::Native,
            vec![
                calls(&[call("a", "rm"), call("b", "read_file")]),
                Event::Observed(Came::Refused(Rule::UnknownTool)),
                Event::Observed(Came::Refused(Rule::NotGranted)),
            ],
            vec!["call 1 rm", "call 2 read_file", "ask Native"],
        ),
        (
            "a call that cannot be read is mended",
            Lane::Text,
            vec![
                says("{\"tool\": \"time\" oops"),
                says(TIME),
                done("12:00"),
                says("noon"),
            ],
            vec!["ask Text", "call 1 time", "ask Text", "answer noon"],
        ),
        (
            "syntax that is no call of ours",
            Lane::Text,
            vec![says("<tool_call>time</tool_call>"), says("noon")],
            vec!["ask Text", "answer noon"],
        ),
        (
            "the last call is without tools",
            Lane::Text,
            vec![
                says(TIME),
                done("1"),
                says(TIME),
                done("2"),
                says(TIME),
                done("3"),
                says("enough"),
            ],
            vec![
                "call 1 time",
                "ask Text",
                "call 2 time",
                "ask Text",
                "call 3 time",
                "ask without tools",
                "answer enough",
            ],
        ),
        (
            "calls in the last reply are not made",
            Lane::Text,
            vec![
                says(TIME),
                done("1"),
                says(TIME),
                done("2"),
                says(TIME),
                done("3"),
                says(&format!("It is 3. {TIME}")),
            ],
            vec![
                "call 1 time",
                "ask Text",
                "call 2 time",
                "ask Text",
                "call 3 time",
                "ask without tools",
                "answer It is 3.",
            ],
        ),
        (
            "nothing but syntax in the last reply is empty, asked for once more",
            Lane::Text,
            vec![
                says(TIME),
                done("1"),
                says(TIME),
                done("2"),
                says(TIME),
                done("3"),
                says(TIME),
                says("{\"tool\":\"calc\", half"),
            ],
            vec![
                "call 1 time",
                "ask Text",
                "call 2 time",
                "ask Text",
                "call 3 time",
                "ask without tools",
                "ask without tools",
                "failed empty",
            ],
        ),
        (
            "an empty reply is asked for once more",
            Lane::Native,
            vec![
                fails(K::Empty),
                calls(&[call("a", "time")]),
                done("1"),
                fails(K::Empty),
            ],
            vec!["ask Native", "call 1 time", "ask Native", "failed empty"],
        ),
        (
            "without native calls by words, once",
            Lane::Native,
            vec![
                fails(K::ToolsUnsupported),
                says(TIME),
                done("1"),
                fails(K::ToolsUnsupported),
            ],
            vec![
                "ask Text",
                "call 1 time",
                "ask Text",
                "failed tools_unsupported",
            ],
        ),
        (
            "other failures end it",
            Lane::Native,
            vec![fails(K::Timeout)],
            vec!["failed timeout"],
        ),
        (
            "given up",
            Lane::Text,
            vec![fails(K::Cancelled)],
            vec!["failed cancelled"],
        ),
    ] {
        let mut run = Run::new(rules(lane));
        assert_eq!(line(&run.next(Event::Begin).step), format!("ask {lane:?}"));
        assert_eq!(steps(&mut run, events), expected, "{what}");
    }
}

#[test]
fn the_answer_carries_what_the_model_said_of_it() {
    let mut run = Run::new(rules(Lane::Native));
    run.next(Event::Begin);
    let next = run.next(Event::Replied(Completion {
        text: "half an ans".to_owned(),
        cut: true,
        left_out: 7,
        ..Completion::default()
    }));
    let end = End::Answer {
        text: "half an ans".to_owned(),
        cut: true,
        left_out: 7,
    };
    assert_eq!(
        next.record,
        [],
        "the answer is committed with the end of the run"
    );
    assert_eq!(next.step, Step::Finish(end));
}

#[test]
fn no_more_than_eight_calls_of_a_reply_are_made_and_no_more_than_sixteen_looked_at() {
    let mut run = Run::new(rules(Lane::Native));
    let many: Vec<ToolCall> = (0..100).map(|_| call("", "time")).collect();
    run.next(calls(&many));
    let mut lines = Vec::new();
    for n in 1..=16 {
        let Step::Call(asked) = run.next(Event::Begin).step else {
            panic!("{n}");
        };
        assert_eq!((asked.n, asked.budget == Budget::Spent), (n, n > 8));
        let came = match asked.budget {
            Budget::Left => Came::Done("1".to_owned()),
            Budget::Spent => Came::Refused(Rule::PerRunBudget),
        };
        lines.push(line(&run.next(Event::Observed(came)).step));
    }
    assert_eq!(lines[15], "ask Native");
    let turns = turns(&mut run);
    assert_eq!(turns.len(), 17);
    let told = |at: usize| match &turns[at] {
        Turn::Observed { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(8), "1");
    assert!(
        told(9).starts_with("not done: too many calls"),
        "{}",
        told(9)
    );
}

#[test]
fn the_model_is_shown_what_it_did_in_its_own_lane() {
    let mut run = Run::new(rules(Lane::Native));
    let mut reply = call("mine", "calc");
    reply.arguments = Err("1+1".to_owned());
    run.next(Event::Replied(Completion {
        text: format!("I add. {TIME}"),
        calls: vec![reply.clone(), call("mine", "time")],
        ..Completion::default()
    }));
    run.next(Event::Observed(Came::Malformed));
    run.next(done("12:00"));
    let second = call("call00002", "time");
    let observed = |id: &str, name: &str, text: &str| Turn::Observed {
        id: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let malformed = "failed: the arguments are no JSON object; mend them and call again";
    assert_eq!(
        turns(&mut run),
        [
            Turn::Called {
                text: "I add.".to_owned(),
                calls: vec![reply, second],
            },
            observed("mine", "calc", malformed),
            observed("call00002", "time", "12:00"),
        ]
    );
    // The same in words, once the model has refused the other lane.
    run.next(fails(FailureKind::ToolsUnsupported));
    let said = "I add.\n{\"tool\":\"calc\",\"arguments\":{\"unreadable\":\"1+1\"}}\n{\"tool\":\"time\",\"arguments\":{}}";
    assert_eq!(
        turns(&mut run),
        [
            spoken(Speaker::Assistant, said),
            spoken(
                Speaker::User,
                &format!("Result of calc: {malformed}\n\nResult of time: 12:00")
            ),
        ]
    );
}

#[test]
fn what_a_model_guesses_behind_its_call_is_not_shown_to_it_again() {
    let mut run = Run::new(rules(Lane::Text));
    run.next(says(&format!("I look. {TIME}\nResult of time: 99:99")));
    run.next(done("12:00"));
    assert_eq!(
        turns(&mut run),
        [
            spoken(Speaker::Assistant, &format!("I look. {TIME}")),
            spoken(Speaker::User, "Result of time: 12:00"),
        ]
    );
}

#[test]
fn what_came_of_a_call_is_told_honestly_and_within_bounds() {
    let long = "ñ".repeat(100);
    for (came, told) in [
        (Came::Done("12:00".to_owned()), "12:00"),
        (Came::Done(" ".to_owned()), "(nothing)"),
        (Came::Done(long), &*format!("{}\n[... cut: 40 of 200 bytes are shown ...]", "ñ".repeat(20))),
        (Came::Failed("no such file".to_owned()), "failed: no such file"),
        (Came::Refused(Rule::UnknownTool), "there is no tool \"time\"; there are: time, calc"),
        (Came::Refused(Rule::PerRunBudget), "not done: too many calls at once; ask again for what is still needed"),
        (Came::Rehearsed, "simulation: time was not executed and nothing happened; tell the person so"),
        (Came::Unknown, "the outcome is unknown: time was interrupted and may have been executed; it is not repeated"),
    ] {
        let mut run = Run::new(rules(Lane::Text));
        run.next(says(TIME));
        let next = run.next(Event::Observed(came));
        assert_eq!(next.record, [Entry::Observed { n: 1, text: told.to_owned() }]);
    }
    for rule in [
        Rule::Deny,
        Rule::NotGranted,
        Rule::Channel,
        Rule::SensitiveLocality,
        Rule::PrivateNetworkShield,
        Rule::Cage,
        Rule::ToolsUnsupported,
        Rule::GateFault,
    ] {
        let mut run = Run::new(rules(Lane::Text));
        run.next(says(TIME));
        let text = "denied: time may not be used here; nothing was done".to_owned();
        assert_eq!(
            run.next(Event::Observed(Came::Refused(rule))).record,
            [Entry::Observed { n: 1, text }]
        );
    }
}

#[test]
fn a_restart_goes_on_behind_the_last_step() {
    let reply = Entry::Reply {
        lane: Lane::Native,
        text: String::new(),
        calls: vec![call("a", "time"), call("b", "calc")],
    };
    let started = |n| Run::started(n);
    let observed = |n, text: &str| Entry::Observed {
        n,
        text: text.to_owned(),
    };
    let unknown = |n: u32, name: &str| {
        observed(n, &format!("the outcome is unknown: {name} was interrupted and may have been executed; it is not repeated"))
    };
    for (what, journal, record, step) in [
        ("nothing done", vec![], vec![], "ask Native"),
        ("a reply", vec![reply.clone()], vec![], "call 1 time"),
        (
            "one that had started",
            vec![reply.clone(), started(1)],
            vec![unknown(1, "time")],
            "call 2 calc",
        ),
        (
            "one that had ended",
            vec![reply.clone(), started(1), observed(1, "x")],
            vec![],
            "call 2 calc",
        ),
        (
            "both",
            vec![reply.clone(), observed(1, "x"), observed(2, "y")],
            vec![],
            "ask Native",
        ),
        (
            "the second had started",
            vec![reply.clone(), observed(1, "x"), started(2)],
            vec![unknown(2, "calc")],
            "ask Native",
        ),
    ] {
        let bytes: Vec<Vec<u8>> = journal.iter().map(Entry::to_bytes).collect();
        let entries = bytes.iter().map(|bytes| Entry::from_bytes(bytes).unwrap());
        let mut run = Run::resume(rules(Lane::Native), entries).unwrap();
        let next = run.next(Event::Begin);
        assert_eq!(
            (next.record, line(&next.step).as_str()),
            (record, step),
            "{what}"
        );
    }
    for (what, journal) in [
        ("an observation of nothing", vec![observed(1, "x")]),
        ("of another call", vec![reply.clone(), observed(2, "x")]),
        (
            "a reply before the calls' end",
            vec![reply.clone(), reply.clone()],
        ),
        ("a start of another call", vec![reply.clone(), started(3)]),
        ("a start of nothing", vec![started(1)]),
    ] {
        assert_eq!(
            Run::resume(rules(Lane::Native), journal).err(),
            Some(Damaged),
            "{what}"
        );
    }
}

#[test]
fn a_call_that_started_and_was_observed_is_not_unknown_when_another_waits() {
    let mut run = Run::new(rules(Lane::Text));
    run.next(says(&format!("{TIME}{TIME}")));
    run.next(done("1"));
    assert_eq!(line(&run.next(Event::Begin).step), "call 2 time");
}

/// Drives a run by dice; gives the journal and the last step.
fn driven(run: &mut Run, dice: &mut Dice, journal: &mut Vec<Entry>, most: usize) -> Step {
    let mut next = run.next(Event::Begin);
    for _ in 0..most {
        journal.extend(next.record.iter().cloned());
        let event = match &next.step {
            Step::Finish(_) => return next.step,
            Step::Ask(_) => match dice.roll(8) {
                0 => says("done"),
                1 => says(TIME),
                2 => says("{\"tool\":\"calc\" oops"),
                3 => fails(FailureKind::Empty),
                4 => fails(FailureKind::ToolsUnsupported),
                5 => calls(&[call("a", "time"), call("a", "rm")]),
                6 => says(&format!("<tool_call>{TIME}{TIME}</tool_call> and")),
                _ => calls(&vec![call("", "calc"); dice.roll(20)]),
            },
            Step::Call(asked) => {
                if dice.roll(2) == 0 {
                    journal.push(Run::started(asked.n));
                }
                Event::Observed(
                    [Came::Done("x".to_owned()), Came::Rehearsed, Came::Malformed][dice.roll(3)]
                        .clone(),
                )
            }
        };
        next = run.next(event);
    }
    next.step
}

#[test]
fn every_run_ends_without_call_syntax_and_can_be_gone_on_with_from_any_entry() {
    let mut finished = [0; 2];
    for series in 0..400 {
        let mut dice = Dice::new(series);
        let mut journal = Vec::new();
        let mut run = Run::new(rules(Lane::Native));
        let step = driven(&mut run, &mut dice, &mut journal, 200);
        match step {
            Step::Finish(End::Answer { text, .. }) => {
                finished[0] += 1;
                assert!(!text.contains("tool") && !text.trim().is_empty(), "{text}");
            }
            Step::Finish(End::Failed(_)) => finished[1] += 1,
            other => panic!("series {series} does not end: {other:?}"),
        }
        for cut in 0..=journal.len() {
            let began = journal[..cut].to_vec();
            let mut again = Run::resume(rules(Lane::Text), began.clone()).expect("our own journal");
            let next = again.next(Event::Begin);
            let begun = matches!(began.last(), Some(Entry::Started { .. }));
            assert_eq!(
                next.record.len(),
                usize::from(begun),
                "only what had begun becomes unknown"
            );
            if let (Some(Entry::Started { n }), Step::Call(asked)) = (began.last(), &next.step) {
                assert_eq!(asked.n, n + 1, "it is not called again");
            }
            let mut rest = Vec::new();
            let step = driven(&mut again, &mut Dice::new(series + 1), &mut rest, 200);
            assert!(matches!(step, Step::Finish(_)));
        }
    }
    assert!(finished[0] > 50 && finished[1] > 50, "{finished:?}");
}

#[test]
fn no_two_calls_of_a_run_share_an_id() {
    let mut run = Run::new(rules(Lane::Native));
    for _ in 0..2 {
        run.next(calls(&[call("call_0", "time"), call("", "time")]));
        run.next(done("1"));
        run.next(done("2"));
    }
    let ids: Vec<String> = turns(&mut run)
        .into_iter()
        .filter_map(|turn| match turn {
            Turn::Observed { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["call_0", "call00002", "call00003", "call00004"]);
}
