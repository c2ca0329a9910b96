//! Which variable holds which secret, and that no party is handed another's.

use super::view::Object;
use super::{Entry, Places};
use crate::domain::ids::EnvName;

/// Which variable is used for what, and where.
#[derive(Default)]
pub(super) struct Uses {
    uses: Vec<Use>,
}

struct Use {
    env: EnvName,
    purpose: String,
    path: String,
    at: usize,
    is_admin: bool,
}

impl Uses {
    /// Takes note of a key that names a secret, and gives the name.
    pub(super) fn of(&mut self, view: &Object<'_>, key: &str, purpose: String) -> Option<EnvName> {
        let env = view.env(key)?;
        self.uses.push(Use {
            env: env.clone(),
            purpose,
            path: view.path_of(key),
            at: view.at(key),
            is_admin: false,
        });
        Some(env)
    }

    /// Takes note of the variable of the admin token.
    pub(super) fn admin(&mut self, view: &Object<'_>) {
        if let Some(env) = view.env("token_env") {
            self.uses.push(Use {
                env,
                purpose: "the admin token".into(),
                path: view.path_of("token_env"),
                at: view.at("token_env"),
                is_admin: true,
            });
        }
    }

    /// The admin token's variable serves nothing else; another one in two kinds of use would hand
    /// one party the secret of another.
    pub(super) fn judge(&self, root: &Object<'_>) {
        let found = root.cx.found;
        let admin = self.uses.iter().find(|used| used.is_admin);
        for (index, used) in self.uses.iter().enumerate() {
            if used.is_admin {
                continue;
            }
            if admin.is_some_and(|admin| admin.env == used.env) {
                found.error(
                    used.at,
                    || used.path.clone(),
                    || {
                        (
                            format!(
                                "{} holds the admin token and may serve nothing else",
                                used.env
                            ),
                            "give this its own variable".into(),
                        )
                    },
                );
                continue;
            }
            let other = self.uses[..index]
                .iter()
                .find(|other| other.env == used.env && other.purpose != used.purpose);
            let Some(other) = other else { continue };
            let words = || {
                (
                    format!(
                        "{} serves as {} and as {}",
                        used.env, other.purpose, used.purpose
                    ),
                    "one party would learn the other's secret: give each its own variable".into(),
                )
            };
            match root.cx.env.entry {
                Entry::File => found.warning(used.at, || used.path.clone(), words),
                Entry::Post => found.error(used.at, || used.path.clone(), words),
            }
        }
    }

    /// Where each of them stands.
    pub(super) fn places(self, root: &Object<'_>) -> Places {
        Places(
            self.uses
                .into_iter()
                .map(|used| {
                    let place = root.cx.found.place(used.at);
                    (used.path, place)
                })
                .collect(),
        )
    }
}
