//! Turns the names of secrets into values: from the environment, from the credentials that systemd
//! hands over, from an env file. The only place that reads them; it never shows one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::check::Places;
use super::env_file;
use super::plan::{ChannelSettings, Plan};
use super::problem::{Problem, Severity};
use super::values::is_env_name;
use crate::base::secret::{Redactor, Secret};
use crate::base::text::printable;
use crate::domain::ids::EnvName;
use crate::domain::privacy;

/// Bytes of a credential or of an env file: no secret is longer, and a mistaken path must not fill
/// memory.
const SOURCE_BYTES: u64 = 64 * 1024;
/// Bytes below which a secret can be guessed: 16 of a random alphabet are out of reach.
const SHORT: usize = 16;

/// Where values are looked up, in this order: environment, credentials, env file.
#[derive(Clone, Default)]
pub struct Sources {
    /// The environment as it was at start.
    pub environment: HashMap<String, OsString>,
    /// The folder of credentials, one file for each name (systemd.exec(5), "Credentials").
    pub credentials_directory: Option<PathBuf>,
    /// The file of `--env-file`; read at each [`resolve`].
    pub env_file: Option<PathBuf>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("credentials_directory", &self.credentials_directory)
            .field("env_file", &self.env_file)
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Those of this process.
    #[must_use]
    pub fn of_process(env_file: Option<&Path>) -> Sources {
        Sources {
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                .collect(),
            credentials_directory: std::env::var_os("CREDENTIALS_DIRECTORY")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            env_file: env_file.map(Path::to_path_buf),
        }
    }
}

/// The values of a plan's secrets, by the names of their variables.
#[derive(Clone, Debug, Default)]
pub struct Secrets(HashMap<EnvName, Secret>);

impl Secrets {
    /// The value of a variable; `None` for one that is unset and may be.
    #[must_use]
    pub fn of(&self, name: &EnvName) -> Option<&Secret> {
        self.0.get(name)
    }
}

/// What [`resolve`] came to.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The values; `None` when one that is needed is missing or unfit.
    pub secrets: Option<Secrets>,
    /// The values found, also where another one is missing: enough to try a part, not to serve.
    pub found: Secrets,
    /// What is wrong (errors) or weak (warnings), in the plan's order.
    pub problems: Vec<Problem>,
}

/// One use of a variable in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The variable.
    pub env: EnvName,
    /// The key that names it.
    pub path: String,
    /// Whether there must be a value.
    pub need: Need,
    /// Who gives the value out, where it is a platform and not the operator.
    pub issuer: Option<&'static str>,
}

/// Whether a secret must have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing starts without it.
    Required,
    /// Unset, it leaves the write surface out.
    MayBeUnset,
    /// It belongs to a model that privacy drops: nobody uses it, whatever it is.
    Unused,
}

/// Every secret that a plan names, in the file's order.
#[must_use]
pub fn wanted(plan: &Plan) -> Vec<Wanted> {
    let mut all = Vec::new();
    let mut want = |env: &Option<EnvName>, path: String, need: Need, issuer| {
        if let Some(env) = env.clone() {
            all.push(Wanted {
                env,
                path,
                need,
                issuer,
            });
        }
    };
    for (index, channel) in plan.channels.iter().enumerate() {
        let at = format!("channels[{index}]");
        want(
            &channel.token_env,
            format!("{at}.token_env"),
            Need::Required,
            issuer(channel.name.as_str()),
        );
        if let ChannelSettings::Webhook(webhook) = &channel.settings {
            want(
                &webhook.outbound_token_env,
                format!("{at}.webhook.outbound_token_env"),
                Need::Required,
                None,
            );
            let signature = webhook.signature.as_ref();
            want(
                &signature.map(|signature| signature.secret_env.clone()),
                format!("{at}.webhook.signature.secret_env"),
                Need::Required,
                None,
            );
        }
    }
    for (index, brain) in plan.brains.iter().enumerate() {
        let eligible = privacy::eligible(brain);
        for (place, model) in brain.models.iter().enumerate() {
            let need = if eligible.contains(&place) {
                Need::Required
            } else {
                Need::Unused
            };
            want(
                &model.api_key_env,
                format!("brains[{index}].models[{place}].api_key_env"),
                need,
                issuer(model.provider.as_str()),
            );
        }
    }
    want(
        &plan.admin_token_env,
        "admin.token_env".into(),
        Need::MayBeUnset,
        None,
    );
    all
}

/// The platform that gives out the secrets of a channel or a provider of that name.
fn issuer(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "telegram" => "Telegram",
        "discord" => "Discord",
        "groq" => "Groq",
        _ => return None,
    })
}

/// Looks up every secret of a plan and teaches the redactor all values found. `places` tells where
/// in the file each name stands.
///
/// Blocks: for as long as the disk takes to read a few small files.
#[must_use]
pub fn resolve(plan: &Plan, places: &Places, sources: &Sources, redactor: &Redactor) -> Resolved {
    let mut problems = Vec::new();
    let from_file = match sources.env_file.as_deref().map(read_env_file) {
        None => HashMap::new(),
        Some(Ok(values)) => values,
        Some(Err(problem)) => {
            problems.push(problem);
            HashMap::new()
        }
    };
    // Read once, so that a value that changes meanwhile is the same for all who use it.
    let mut looked_up: HashMap<EnvName, Result<Option<Secret>, String>> = HashMap::new();
    let mut secrets = Secrets::default();
    for wanted in wanted(plan) {
        let found = looked_up
            .entry(wanted.env.clone())
            .or_insert_with(|| look_up(&wanted.env, sources, &from_file));
        if let Ok(Some(secret)) = &*found {
            redactor.learn(secret);
            secrets.0.insert(wanted.env.clone(), secret.clone());
        }
        let verdict = match found {
            _ if wanted.need == Need::Unused => None,
            Ok(Some(secret)) if secret.reveal().len() < SHORT => {
                Some(short(&wanted, secret.reveal().len()))
            }
            Ok(None) if wanted.need == Need::Required => Some((
                Severity::Error,
                format!("the variable {} has no value", wanted.env),
                how_to_set(&wanted.env, sources),
            )),
            Ok(_) => None,
            Err(why) => Some((
                Severity::Error,
                format!("the value of {} cannot be used: {why}", wanted.env),
                "set it again, on one line and without quotes around it".into(),
            )),
        };
        if let Some((severity, message, help)) = verdict {
            let (line, column) = places.of(&wanted.path);
            problems.push(Problem {
                severity,
                path: wanted.path,
                line,
                column,
                message,
                help,
            });
        }
    }
    let failed = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    Resolved {
        secrets: (!failed).then(|| secrets.clone()),
        found: secrets,
        problems,
    }
}

/// What is said of a secret of so many bytes, which are too few.
fn short(wanted: &Wanted, bytes: usize) -> (Severity, String, String) {
    let env = &wanted.env;
    let (message, help) = match wanted.issuer {
        Some(issuer) => (
            format!(
                "the value of {env} has {bytes} bytes and is too short for a token of {issuer}"
            ),
            "copy it whole".to_owned(),
        ),
        None => (
            format!("the secret in {env} has {bytes} bytes and can be guessed"),
            format!("use at least {SHORT}, such as those of `openssl rand -hex 24`"),
        ),
    };
    (Severity::Warning, message, help)
}

/// The value of one variable, for whoever needs no other; `None` where it is unset.
///
/// Blocks: as [`resolve`].
///
/// # Errors
/// The env file cannot be read, or the value is unfit.
pub fn one(name: &EnvName, sources: &Sources) -> Result<Option<Secret>, Problem> {
    let from_file = match sources.env_file.as_deref() {
        None => HashMap::new(),
        Some(path) => read_env_file(path)?,
    };
    look_up(name, sources, &from_file).map_err(|why| {
        Problem::of_file(
            format!("the value of {name} cannot be used: {why}"),
            "set it again, on one line and without quotes around it",
        )
    })
}

/// The value of one variable: the first source that has one decides.
fn look_up(
    name: &EnvName,
    sources: &Sources,
    from_file: &HashMap<String, String>,
) -> Result<Option<Secret>, String> {
    if let Some(value) = sources.environment.get(name.as_str()) {
        let text = value
            .to_str()
            .ok_or("it is not UTF-8 (from the environment)")?;
        if let Some(secret) = fit(text, "from the environment")? {
            return Ok(Some(secret));
        }
    }
    if let Some(folder) = &sources.credentials_directory {
        if let Some(text) = read_credential(folder, name)? {
            let text = text.strip_suffix('\n').unwrap_or(&text);
            if let Some(secret) = fit(text, "from the credentials directory")? {
                return Ok(Some(secret));
            }
        }
    }
    match from_file.get(name.as_str()) {
        Some(text) => fit(text, "from the env file"),
        None => Ok(None),
    }
}

/// A value that can be a secret; `None` for one that counts as unset.
fn fit(text: &str, source: &str) -> Result<Option<Secret>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.chars().any(char::is_control) {
        return Err(format!("it holds a control character ({source})"));
    }
    Ok(Some(Secret::new(text)))
}

fn read_credential(folder: &Path, name: &EnvName) -> Result<Option<String>, String> {
    // A name is checked before it becomes part of a path; a plan holds no other.
    if !is_env_name(name.as_str()) {
        return Ok(None);
    }
    match read_small(&folder.join(name.as_str())) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{error} (from the credentials directory)")),
    }
}

/// A small text file, whole. The error never holds content.
fn read_small(path: &Path) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(SOURCE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SOURCE_BYTES {
        return Err(std::io::Error::other("it is larger than 64 KiB"));
    }
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
}

fn read_env_file(path: &Path) -> Result<HashMap<String, String>, Problem> {
    match read_small(path) {
        Ok(text) => Ok(env_file::parse(&text)),
        Err(error) => Err(Problem::of_file(
            format!(
                "cannot read the env file {}: {error}",
                printable(&path.to_string_lossy())
            ),
            "give the path of a file with KEY=VALUE lines, or leave --env-file out",
        )),
    }
}

fn how_to_set(name: &EnvName, sources: &Sources) -> String {
    match &sources.env_file {
        Some(file) => format!(
            "add the line {name}=... to {}",
            printable(&file.to_string_lossy())
        ),
        None => format!(
            "export {name}=... before korvun starts, or put the line {name}=... into a file and give it with --env-file"
        ),
    }
}
