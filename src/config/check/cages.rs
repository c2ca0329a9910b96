//! Where `read_file` may never read, as far as the paths alone tell. By resolved path it is judged
//! again at start and at each use.

use std::path::PathBuf;

use super::facts::Facts;
use super::view::Object;
use crate::domain::paths::{plain, FORBIDDEN};

/// Judges the root of `read_file`.
pub(super) fn root(agent: &Object<'_>, facts: &Facts<'_>) {
    let Some(view) = agent.object("read_file") else {
        return;
    };
    let Some(root) = view.file("root").map(|path| plain(&path)) else {
        return;
    };
    let credentials = view.cx.env.credentials_directory.as_deref().map(plain);
    let forbidden = FORBIDDEN
        .iter()
        .map(PathBuf::from)
        .chain(credentials.filter(|path| path.is_absolute()));
    for folder in forbidden {
        if root.starts_with(&folder) || folder.starts_with(&root) {
            view.error(
                "root",
                format!("it is, lies in or contains {}", folder.display()),
                "choose a folder that holds nothing but what may be read",
            );
            return;
        }
    }
    let files = [
        ("the configuration file", Some(view.cx.file.as_path())),
        ("the env file", view.cx.env.env_file.as_deref()),
        ("the database", facts.database.as_deref()),
    ];
    for (what, file) in files {
        if file.is_some_and(|file| plain(file).starts_with(&root)) {
            view.error(
                "root",
                format!("it contains {what}"),
                "choose a folder that holds nothing but what may be read",
            );
            return;
        }
    }
}
