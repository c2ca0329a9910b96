//! Which models of a brain may be asked at all. Pure; runs before anything is sent, on any thread,
//! and must never let a cloud model of a private brain through.

use super::brain::{Brain, Locality, Model, Sensitivity};

/// Why a model counts as running on somebody else's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// The configuration says so.
    Declared,
    /// Its provider has nothing but cloud models (groq).
    Provider,
    /// Its name ends in `-cloud` or `:cloud`: a local Ollama hands such a model's prompts on to
    /// its vendor's servers.
    Name,
}

impl Cloud {
    /// The reason's word in API, logs and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Cloud::Declared => "cloud",
            Cloud::Provider => "cloud_provider",
            Cloud::Name => "cloud_name",
        }
    }
}

/// Why `model` counts as cloud, whatever is declared; `None` for a local one. What only its
/// provider can tell (a remote host behind a local name) is the provider's part to check.
#[must_use]
pub fn cloud(model: &Model) -> Option<Cloud> {
    if model.locality == Locality::Cloud {
        return Some(Cloud::Declared);
    }
    match model.provider.as_str() {
        "groq" => Some(Cloud::Provider),
        "ollama" if named_cloud(model.model_id.as_str()) => Some(Cloud::Name),
        _ => None,
    }
}

/// Ollama folds the case of names, so we do too.
fn named_cloud(model_id: &str) -> bool {
    let name = model_id.trim().to_ascii_lowercase();
    name.ends_with("-cloud") || name.ends_with(":cloud")
}

/// The models of `brain` that may be asked, as indices into its `models`, in catalogue order.
#[must_use]
pub fn eligible(brain: &Brain) -> Vec<usize> {
    (0..brain.models.len())
        .filter(|&i| refusal(brain, i).is_none())
        .collect()
}

/// The models of `brain` that privacy drops, with the reason's word, in catalogue order.
#[must_use]
pub fn dropped(brain: &Brain) -> Vec<(usize, &'static str)> {
    (0..brain.models.len())
        .filter_map(|i| refusal(brain, i).map(|why| (i, why.word())))
        .collect()
}

fn refusal(brain: &Brain, i: usize) -> Option<Cloud> {
    match brain.sensitivity {
        Sensitivity::Public => None,
        Sensitivity::Private => cloud(&brain.models[i]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::brain::samples;

    #[test]
    fn a_private_brain_asks_only_what_is_local_by_declaration_provider_and_name() {
        use Locality::{Cloud, Local};
        let rows = [
            ("ollama", "llama3.2:3b", Local, None),
            ("ollama", "llama3.2:3b", Cloud, Some("cloud")),
            ("ollama", "gpt-oss:120b-cloud", Local, Some("cloud_name")),
            ("ollama", "kimi-k2:cloud", Local, Some("cloud_name")),
            ("ollama", "Kimi-K2:CLOUD", Local, Some("cloud_name")),
            ("ollama", "kimi-k2:cloud", Cloud, Some("cloud")),
            ("ollama", "cloud-7b", Local, None),
            ("ollama", "mycloud", Local, None),
            ("groq", "llama-3.3-70b", Local, Some("cloud_provider")),
            ("groq", "llama-3.3-70b", Cloud, Some("cloud")),
            ("openai-compatible", "any", Local, None),
            ("openai-compatible", "any", Cloud, Some("cloud")),
        ];
        let mut brain = samples::brain("b");
        brain.models = rows
            .iter()
            .map(|(provider, id, locality, _)| Model {
                locality: *locality,
                ..samples::model(provider, id)
            })
            .collect();
        brain.sensitivity = Sensitivity::Private;
        let expected: Vec<_> = rows
            .iter()
            .enumerate()
            .filter_map(|(i, row)| row.3.map(|why| (i, why)))
            .collect();
        assert_eq!(dropped(&brain), expected);
        assert_eq!(eligible(&brain), [0, 6, 7, 10]);

        brain.sensitivity = Sensitivity::Public;
        assert_eq!(dropped(&brain), []);
        assert_eq!(eligible(&brain).len(), rows.len());
    }
}
