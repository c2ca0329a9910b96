//! `korvun chat`: the console from a terminal. Reads a line, writes the answer; prompts only on a
//! terminal, and shows no control character that came from elsewhere. The main thread runs it.

mod prompt;
mod server;

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::command::Chat;
use super::style::{Role, Style};
use super::{check, file_or_default, note, status, Exit};
use crate::base::secret::Secret;
use crate::base::sync::{spawn, Stop};
use crate::base::text::printable;
use crate::config::plan::Plan;
use crate::config::secrets::{self, Sources};
use crate::daemon::load::catalogue;
use crate::daemon::signal;
use crate::domain::ids::EnvName;
use crate::domain::limits::Limits;
use crate::domain::message::Language;
use server::{Answer, Server, Trouble};

/// The first pause between two looks for an answer, and the longest: people notice tenths of a
/// second, and a model that takes minutes needs no more than a look a second.
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_MOST: Duration = Duration::from_secs(1);
/// How long an answer is looked for: the longest `answer_timeout`, three attempts, and a little.
const ANSWER_MOST: Duration = Duration::from_secs(3 * 3600 + 600);
/// How long the gateway may be away while an answer is looked for: a restart, a reload.
const AWAY_MOST: Duration = Duration::from_secs(30);
/// When a person is told that the model is still at work.
const SHOW_AFTER: Duration = Duration::from_secs(2);

/// Talks until the input ends.
///
/// Blocks: until then; an answer may take as long as its brain may.
pub fn run(typed: &Chat, style: Style) -> Exit {
    let talk = match prepare(typed, style) {
        Ok(talk) => talk,
        Err(ended) => return complain(&ended, style),
    };
    if let Err(error) = end_on_signals() {
        note(&format!("korvun: cannot listen for signals: {error}"));
        return Exit::Failed;
    }
    talk.run()
}

/// Why a talk cannot begin.
struct Ended {
    problem: String,
    help: String,
    exit: Exit,
}

impl Ended {
    fn new(exit: Exit, problem: impl Into<String>, help: impl Into<String>) -> Ended {
        Ended {
            problem: problem.into(),
            help: help.into(),
            exit,
        }
    }
}

fn complain(ended: &Ended, style: Style) -> Exit {
    let name = style.paint(Role::Bad, "korvun:");
    note(&format!("{name} {}", printable(&ended.problem)));
    if !ended.help.is_empty() {
        let name = style.paint(Role::Name, "help:");
        note(&format!("{name} {}", printable(&ended.help)));
    }
    ended.exit
}

/// Finds out whom to talk to, where, and with which token.
fn prepare(typed: &Chat, style: Style) -> Result<Talk, Ended> {
    let file = file_or_default(typed.config.as_deref());
    let checked = check::look(&file, typed.env_file.as_deref(), &catalogue()).map_err(|problem| {
        Ended::new(
            Exit::Usage,
            problem.to_string(),
            "--config names the gateway's configuration: it tells address, token variable and brains",
        )
    })?;
    let plan = checked.plan.ok_or_else(|| {
        Ended::new(
            Exit::Usage,
            format!("{} has errors", file.display()),
            "`korvun config check` shows them",
        )
    })?;
    let Some(env) = &plan.admin_token_env else {
        return Err(Ended::new(
            Exit::Failed,
            format!("{} has no `admin` block, so its gateway has no console", file.display()),
            "add \"admin\": {\"token_env\": \"KORVUN_ADMIN_TOKEN\"} and set that variable for the gateway",
        ));
    };
    let addr = match &typed.addr {
        Some(addr) => addr.clone(),
        None if plan.observability.enabled => status::reachable(plan.observability.addr),
        None => {
            return Err(Ended::new(
                Exit::Failed,
                format!(
                    "{} switches the admin server off, so there is no console",
                    file.display()
                ),
                "set observability.enabled to true",
            ))
        }
    };
    let brain = match &typed.brain {
        Some(brain) => brain.clone(),
        None => of_route(&plan),
    };
    let token = token(env, typed)?;
    let server = Server::new(&addr, token, &format!("console::{brain}"), language())
        .map_err(|error| Ended::new(Exit::Usage, error, "--addr takes HOST:PORT"))?;
    Ok(Talk {
        server,
        addr,
        brain,
        env: env.clone(),
        style,
        typist: match std::io::stdin().is_terminal() {
            true => Typist::Person,
            false => Typist::Program,
        },
        watched: std::io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
        pause: Stop::new(),
    })
}

/// The language of this terminal (POSIX, "Internationalization Variables": the first of these that
/// says something decides).
fn language() -> Language {
    let said = |name| std::env::var(name).ok().filter(|tag| !tag.is_empty());
    let tag = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(said);
    Language::of_tag(&tag.unwrap_or_default())
}

/// The brain that the console's route names, else the first one.
fn of_route(plan: &Plan) -> String {
    let mut routes = plan.routes.iter();
    let route = routes.find(|route| route.channel.as_str() == "console");
    match (route, plan.brains.first()) {
        (Some(route), _) => route.brain.as_str().to_owned(),
        (None, Some(brain)) => brain.name.as_str().to_owned(),
        (None, None) => String::new(),
    }
}

fn token(env: &EnvName, typed: &Chat) -> Result<Secret, Ended> {
    let sources = Sources::of_process(typed.env_file.as_deref());
    match secrets::one(env, &sources) {
        Ok(Some(token)) => Ok(token),
        Err(problem) => Err(Ended::new(Exit::Failed, problem.message, problem.help)),
        Ok(None) => prompt::secret(&format!("{env} (not shown): ")).map_err(|error| {
            Ended::new(
                Exit::Failed,
                format!("the variable {env} has no value, and it cannot be asked for: {error}"),
                format!("set {env} to the gateway's admin token, or give it with --env-file"),
            )
        }),
    }
}

/// Ends the process on Ctrl-C and when the terminal is closed, which is how a talk may end as well
/// as any other. What was sent by then is answered all the same and kept in the conversation.
fn end_on_signals() -> std::io::Result<()> {
    let (orders_in, orders) = channel();
    signal::listen(orders_in)?;
    spawn("chat-end", 64 * 1024, move || {
        if orders.recv().is_ok() {
            note("");
            std::process::exit(i32::from(Exit::Done.code()));
        }
    })?;
    Ok(())
}

/// Who types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typist {
    /// Somebody at a terminal, who can try again.
    Person,
    /// A pipe or a file.
    Program,
}

/// One conversation.
struct Talk {
    server: Server,
    addr: String,
    brain: String,
    env: EnvName,
    style: Style,
    typist: Typist,
    /// Whether somebody looks at standard error as it is written.
    watched: bool,
    /// Never raised; what is waited on between two looks.
    pause: Stop,
}

impl Talk {
    fn run(&self) -> Exit {
        if self.typist == Typist::Person {
            let addr = printable(&self.addr);
            let brain = self.style.paint(Role::Name, &self.brain);
            note(&format!(
                "Talking to {brain} at {addr}. /help tells what it understands; Ctrl-D ends."
            ));
        }
        let most = Limits::default().text_bytes;
        let mut input = std::io::stdin().lock();
        loop {
            if self.typist == Typist::Person {
                self.aside("> ");
            }
            let line = match line(&mut input, most) {
                Ok(Line::End) => {
                    if self.typist == Typist::Person {
                        note("");
                    }
                    return Exit::Done;
                }
                Ok(Line::Text(text)) if text.trim().is_empty() => continue,
                Ok(Line::Text(text)) => Ok(text),
                Ok(Line::Unfit(why)) => Err((
                    format!("this line is not sent: {why}"),
                    "send less, or in several lines".to_owned(),
                )),
                Err(error) => {
                    note(&format!("korvun: cannot read the input: {error}"));
                    return Exit::Failed;
                }
            };
            let answered = line.and_then(|line| self.exchange(&line));
            let shown = match answered {
                Ok(text) => write_answer(&text),
                Err((problem, help)) => {
                    let ended = Ended::new(Exit::Failed, problem, help);
                    let exit = complain(&ended, self.style);
                    // A person may mend it and go on; a program would talk on into the void.
                    match self.typist {
                        Typist::Person => Ok(()),
                        Typist::Program => return exit,
                    }
                }
            };
            if let Err(error) = shown {
                return match error.kind() {
                    // Whoever read the answers has left.
                    std::io::ErrorKind::BrokenPipe => Exit::Done,
                    _ => {
                        note(&format!("korvun: cannot write the answer: {error}"));
                        Exit::Failed
                    }
                };
            }
        }
    }

    /// Sends a line and waits for what it comes to; on failure a sentence and its cure.
    fn exchange(&self, line: &str) -> Result<String, (String, String)> {
        let id = self
            .server
            .say(line)
            .map_err(|trouble| self.told(trouble))?;
        let mut look = LOOK_FIRST;
        let (mut waited, mut away) = (Duration::ZERO, Duration::ZERO);
        let answer = loop {
            match self.server.answer(&id) {
                Ok(Answer::Open) => away = Duration::ZERO,
                Ok(answer) => break Ok(answer),
                Err(Trouble::Away(_) | Trouble::Busy(_)) if away < AWAY_MOST => away += look,
                Err(trouble) => break Err(trouble),
            }
            if waited >= ANSWER_MOST {
                break Err(Trouble::Odd(
                    "there is no answer after three hours".to_owned(),
                ));
            }
            let _ = self.pause.wait(look);
            waited += look;
            look = (look * 2).min(LOOK_MOST);
            self.show_work(waited);
        };
        if self.watched && waited >= SHOW_AFTER {
            self.aside("\r\u{1b}[K");
        }
        match answer.map_err(|trouble| self.told(trouble))? {
            Answer::Said(text) => Ok(text),
            Answer::Silent(why) => Err((why.to_owned(), String::new())),
            Answer::Open => Ok(String::new()),
        }
    }

    /// Shows that the model is at work, on one line that is written over.
    fn show_work(&self, waited: Duration) {
        if self.watched && waited >= SHOW_AFTER {
            let brain = printable(&self.brain);
            self.aside(&format!("\r{brain} is at work, {} s", waited.as_secs()));
        }
    }

    fn aside(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// What went wrong, and the cure.
    fn told(&self, trouble: Trouble) -> (String, String) {
        let (addr, brain, env) = (&self.addr, &self.brain, &self.env);
        match trouble {
            Trouble::Away(why) => (
                format!("Korvun at {addr} is not reachable: {why}"),
                "start it with `korvun serve`; `korvun status` tells more, --addr names another address".to_owned(),
            ),
            Trouble::Token => (
                format!("Korvun at {addr} does not know this token"),
                format!("{env} must have the value here that the running gateway was started with"),
            ),
            Trouble::TooManyFailures => (
                format!("Korvun at {addr} has seen too many wrong tokens"),
                format!("wait a minute, then come with the right value of {env}"),
            ),
            Trouble::NotThere(why) => (
                format!("there is no conversation with {brain} at {addr}: {why}"),
                "`korvun status` lists the brains; the console is there when the gateway was started with its admin token".to_owned(),
            ),
            Trouble::Busy(why) => (
                format!("Korvun at {addr} takes no message now: {why}"),
                "say it again in a moment".to_owned(),
            ),
            Trouble::Odd(why) => (
                format!("Korvun at {addr}: {why}"),
                "`korvun status` tells how it is".to_owned(),
            ),
        }
    }
}

/// Writes an answer and its last line's end. Line breaks are kept, all else that a terminal would
/// obey is shown.
fn write_answer(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", shown(text))?;
    out.flush()
}

fn shown(text: &str) -> String {
    let lines = text
        .trim_end()
        .lines()
        .map(|line| printable(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// What was typed, without its end.
    Text(String),
    /// It cannot be sent, for this reason.
    Unfit(&'static str),
    /// There is no more.
    End,
}

/// Reads a line of at most `most` bytes; of a longer one the rest is passed over.
fn line(input: &mut impl BufRead, most: usize) -> std::io::Result<Line> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(2);
    input.by_ref().take(limit).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(Line::End);
    }
    let whole = bytes.last() == Some(&b'\n');
    while bytes
        .last()
        .is_some_and(|last| matches!(last, b'\n' | b'\r'))
    {
        bytes.pop();
    }
    if bytes.len() > most {
        if !whole {
            pass_over(input)?;
        }
        return Ok(Line::Unfit("it is longer than 64 KiB"));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Line::Text(text),
        Err(_) => Line::Unfit("it is not UTF-8"),
    })
}

/// Reads to the end of the line and keeps nothing.
fn pass_over(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let held = input.fill_buf()?;
        let end = held.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(held.len(), |at| at + 1);
        let done = end.is_some() || held.is_empty();
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_up_to_a_size() {
        let text = |text: &str| Line::Text(text.to_owned());
        let mut input = &b"hi\n\r\nwith\r\n12345\n123456\nafter\n1234567890123\nlast \xff\nend"[..];
        for expected in [
            text("hi"),
            text(""),
            text("with"),
            text("12345"),
            Line::Unfit("it is longer than 64 KiB"),
            text("after"),
            Line::Unfit("it is longer than 64 KiB"),
            Line::Unfit("it is longer than 64 KiB"),
            text("end"),
            Line::End,
            Line::End,
        ] {
            assert_eq!(line(&mut input, 5).expect("a line"), expected);
        }
        let mut input = &b"\xff\n"[..];
        assert_eq!(
            line(&mut input, 5).expect("a line"),
            Line::Unfit("it is not UTF-8")
        );
    }

    #[test]
    fn answers_keep_their_lines_and_lose_what_a_terminal_obeys() {
        assert_eq!(
            shown("a\r\n\tb\u{1b}]0;x\u{7}\n\nc\u{9b}2J\u{202e}\n"),
            "a\n    b\\u{1b}]0;x\\u{7}\n\nc\\u{9b}2J\\u{202e}"
        );
    }
}
