//! `read_file`: text files below one folder. Runs on the run's thread. Reads no byte from outside
//! of the folder, and tells nothing of what is there or not.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::arguments::{failed, schema, text};
use super::below::{walk, End};
use super::port::{Arguments, Call, Fault, Tool};
use super::root::{self, Forbidden};
use super::web::caged;
use crate::domain::brain::ReadFileCage;
use crate::domain::completion::ToolSpec;
use crate::domain::paths::plain;
use crate::domain::reading::{self, Cut};

/// Bytes of a path: the kernel's own bound (limits.h, `PATH_MAX`).
const PATH_MOST: usize = 4096;
/// The answer for whatever is not there and for all that lies outside: the same bytes.
const NOT_THERE: &str = "there is no such file in the folder that may be read";

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "read_file",
        description: "Reads a text file.",
        parameters: schema(&[("path", Some("string"), "")]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct ReadFile {
    root: PathBuf,
    bytes_most: u64,
    forbidden: Forbidden,
}

impl ReadFile {
    /// One in its cage, which may not hold what is forbidden. Opens nothing yet.
    #[must_use]
    pub fn new(cage: &ReadFileCage, forbidden: &Forbidden) -> ReadFile {
        // Fails without a working folder only; then the root is not found at each use.
        let root = std::path::absolute(&cage.root).unwrap_or_else(|_| cage.root.clone());
        ReadFile {
            root: plain(&root),
            bytes_most: cage.max_bytes.into(),
            forbidden: forbidden.clone(),
        }
    }

    /// The path from the root that a call names, as far as the text tells.
    fn judged(&self, arguments: &Arguments) -> Result<PathBuf, Fault> {
        let path = text(arguments, "path")?;
        if path.is_empty() {
            return Err(failed("`path` is empty"));
        }
        if path.len() > PATH_MOST || path.contains('\0') {
            return Err(caged(NOT_THERE));
        }
        let mut path = Path::new(path);
        if path.is_absolute() {
            path = path
                .strip_prefix(&self.root)
                .map_err(|_| caged(NOT_THERE))?;
        }
        let mut depth = 0_usize;
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    depth = depth.checked_sub(1).ok_or_else(|| caged(NOT_THERE))?;
                }
                Component::Normal(_) => depth += 1,
                _ => {}
            }
        }
        Ok(path.to_owned())
    }

    fn read(&self, file: std::fs::File) -> Result<String, Fault> {
        let unable = |_| failed("the file cannot be read now");
        let length = file.metadata().map_err(unable)?.len();
        let mut bytes = Vec::new();
        // One more than is shown tells whether there is more, whatever the length has said.
        file.take(self.bytes_most + 1)
            .read_to_end(&mut bytes)
            .map_err(unable)?;
        let most = usize::try_from(self.bytes_most).unwrap_or(usize::MAX);
        let cut = if bytes.len() > most {
            Cut::Yes
        } else {
            Cut::No
        };
        bytes.truncate(most);
        let Some(text) = reading::text(&bytes, cut) else {
            let length = length.max(bytes.len() as u64);
            return Ok(format!(
                "a binary file of {length} bytes; its content is not shown"
            ));
        };
        Ok(match cut {
            Cut::Yes => format!("{text}\n[cut after {} bytes of {length}]", text.len()),
            Cut::No if text.is_empty() => "[the file is empty]".to_owned(),
            Cut::No => text.to_owned(),
        })
    }
}

impl Tool for ReadFile {
    fn ready(&self) -> bool {
        root::open(&self.root, &self.forbidden).is_ok()
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        self.judged(arguments).map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        let path = self.judged(call.arguments)?;
        let root = root::open(&self.root, &self.forbidden)
            .map_err(|_| caged("the folder that may be read is not there now"))?;
        match walk(&root, &self.root, &path) {
            End::File(file) => self.read(file),
            End::Folder => Err(failed("this is a folder; the name of a file is needed")),
            End::Special => Err(failed("this is no regular file")),
            End::Nothing => Err(failed(NOT_THERE)),
            End::Outside => Err(caged(NOT_THERE)),
            End::Forbidden => Err(failed("this file may not be read by the gateway")),
            End::Unable => Err(failed("the file cannot be read now")),
        }
    }
}
