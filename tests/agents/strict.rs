//! What holds while a run is in work: a grant made stricter acts on its next call, a tool that breaks
//! down breaks nothing else, a stop ends the tool in work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use korvun::domain::completion::{Completion, Lane, Prompt, ToolCall, Turn};
use korvun::domain::message::ChatKind;
use korvun::engine::setup::LiveBrain;
use korvun::provider::Provider;
use korvun::store::State;
use korvun::tool::port::{Arguments, Call, Fault, Tool};
use serde_json::{json, Value};

use super::lab::{words, Changing, Lab, Played};

/// A configuration of one private brain with these tools and grants.
fn config(tools: &[&str], mode: Option<&str>) -> Value {
    let grants = mode.map(|mode| {
        let grant = |tool: &&str| json!({"tool": tool, "mode": mode});
        tools.iter().map(grant).collect::<Vec<_>>()
    });
    let mut agent = json!({"tools": tools});
    if let Some(grants) = grants {
        agent["governance"] = grants.into();
    }
    json!({
        "channels": [{"type": "console"}],
        "brains": [{"name": "casa", "sensitivity": "private", "agent": agent,
            "models": [{"provider": "ollama", "model_id": "tiny", "locality": "local"}]}],
        "routes": [{"channel": "console", "brain": "casa"}],
        "admin": {"token_env": "T_ADMIN"},
    })
}

fn calls(name: &str) -> Completion {
    Completion {
        calls: vec![ToolCall {
            id: "a".to_owned(),
            name: name.to_owned(),
            arguments: Ok(json!({"text": "hello"})
                .as_object()
                .expect("an object")
                .clone()),
        }],
        ..Completion::default()
    }
}

/// What the model has been told of its calls so far.
fn observed(prompt: &Prompt) -> Vec<String> {
    let told = prompt.turns.iter().filter_map(|turn| match turn {
        Turn::Observed { text, .. } => Some(text.clone()),
        _ => None,
    });
    told.collect()
}

fn lab(config: &Value, model: &Arc<dyn Provider>) -> Lab {
    Lab::new(config, Arc::new(Changing::default()), model.clone())
}

#[test]
fn a_grant_made_stricter_acts_on_the_next_call_of_a_run_in_work() {
    for (stricter, outcome, rule) in [
        (Some("deny"), "denied", "deny"),
        (Some("shadow"), "shadowed", ""),
    ] {
        let lab_of_run: Arc<Mutex<Option<Arc<Lab>>>> = Arc::default();
        let theirs = lab_of_run.clone();
        let model: Arc<dyn Provider> = Played::new(Lane::Native, move |prompt| {
            match observed(prompt).len() {
                0 => calls("echo"),
                1 => {
                    // The operator changes the file while the model thinks.
                    let lab = theirs.lock().expect("lab").clone().expect("a lab");
                    let nobody: Arc<dyn Provider> = Played::new(Lane::Native, |_| words("no"));
                    lab.load(&config(&["echo"], stricter), &nobody, |_| {});
                    calls("echo")
                }
                _ => words("done"),
            }
        });
        let lab = Arc::new(lab(&config(&["echo"], Some("allow")), &model));
        *lab_of_run.lock().expect("lab") = Some(lab.clone());
        let id = lab.say("console", ChatKind::Direct, "casa", "twice, please");
        assert_eq!(lab.answer(&id), (State::Answered, "done".to_owned()));
        let rows: Vec<_> = lab
            .audit("casa")
            .into_iter()
            .map(|row| (row.tool, row.outcome, row.rule))
            .collect();
        let row = |outcome: &str, rule: &str| ("echo".into(), outcome.into(), rule.into());
        assert_eq!(rows, [row("ok", ""), row(outcome, rule)]);
        *lab_of_run.lock().expect("lab") = None;
    }
}

#[test]
fn a_grant_made_looser_waits_for_the_next_run() {
    let lab_of_run: Arc<Mutex<Option<Arc<Lab>>>> = Arc::default();
    let theirs = lab_of_run.clone();
    let model: Arc<dyn Provider> = Played::new(Lane::Native, move |prompt| {
        if !observed(prompt).is_empty() {
            return words("done");
        }
        let lab = theirs.lock().expect("lab").clone().expect("a lab");
        let nobody: Arc<dyn Provider> = Played::new(Lane::Native, |_| words("no"));
        lab.load(&config(&["echo"], None), &nobody, |_| {});
        calls("echo")
    });
    let lab = Arc::new(lab(&config(&["echo"], Some("shadow")), &model));
    *lab_of_run.lock().expect("lab") = Some(lab.clone());
    let id = lab.say("console", ChatKind::Direct, "casa", "please");
    assert_eq!(lab.answer(&id).1, "done");
    assert_eq!(lab.audit("casa")[0].outcome, "shadowed");
    *lab_of_run.lock().expect("lab") = None;
}

/// A tool that does what a test says.
struct Made(Box<dyn Fn(&Call<'_>) -> Result<String, Fault> + Send + Sync>);

impl Tool for Made {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, _: &Arguments) -> Result<(), Fault> {
        Ok(())
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        (self.0)(call)
    }
}

fn with_tool(
    tool: impl Fn(&Call<'_>) -> Result<String, Fault> + Send + Sync + 'static,
) -> impl Fn(&mut LiveBrain) {
    let tool: Arc<dyn Tool> = Arc::new(Made(Box::new(tool)));
    move |live| live.agent.as_mut().expect("an agent").tools[0].tool = Some(tool.clone())
}

#[test]
fn a_tool_that_panics_is_an_error_that_the_model_is_told_of() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let theirs = told.clone();
    let model: Arc<dyn Provider> = Played::new(Lane::Native, move |prompt| {
        *theirs.lock().expect("told") = observed(prompt);
        match observed(prompt).is_empty() {
            true => calls("echo"),
            false => words("done"),
        }
    });
    let config = config(&["echo"], None);
    let lab = lab(&config, &model);
    lab.load(
        &config,
        &model,
        with_tool(|_| panic!("marked words of a panic")),
    );
    let id = lab.say("console", ChatKind::Direct, "casa", "please");
    assert_eq!(lab.answer(&id), (State::Answered, "done".to_owned()));
    assert_eq!(lab.audit("casa")[0].outcome, "error");
    let told = told.lock().expect("told").clone();
    assert!(
        told[0].contains("broke down") && !told[0].contains("marked"),
        "{told:?}"
    );
}

#[test]
fn a_stop_of_its_user_ends_the_tool_in_work_and_the_calls_behind_it() {
    let begun = Arc::new(Mutex::new(0));
    let theirs = begun.clone();
    let tool = with_tool(move |call| {
        *theirs.lock().expect("begun") += 1;
        // As a slow tool waits: until it is given up.
        let cut = call.cancel.wait(Duration::from_secs(60));
        Err(Fault::Failed {
            told: format!("cut: {cut}"),
        })
    });
    let model: Arc<dyn Provider> = Played::new(Lane::Native, |_| {
        let mut twice = calls("echo");
        twice.calls.extend(calls("echo").calls);
        twice
    });
    let config = config(&["echo"], None);
    let lab = lab(&config, &model);
    lab.load(&config, &model, tool);
    let id = lab.say("console", ChatKind::Direct, "casa", "please");
    while *begun.lock().expect("begun") == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stop = lab.say("console", ChatKind::Direct, "casa", "/stop");
    assert_eq!(lab.answer(&stop).0, State::Answered);
    let found = lab
        .store
        .message(&id)
        .expect("the store")
        .expect("the message");
    assert_eq!(found.state, State::Cancelled, "{found:?}");
    let closed = || lab.audit("casa").iter().all(|row| !row.outcome.is_empty());
    while !closed() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let rows = lab.audit("casa");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].outcome, "error");
    assert_eq!(*begun.lock().expect("begun"), 1);
}
