//! Folders that are not there: a warning at the key that names them, and no more.

use korvun::config::folders::absent;
use korvun::config::problem::Severity;
use serde_json::json;

use super::checked;

#[test]
fn a_root_that_is_missing_is_a_warning_until_the_folder_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("notes");
    let agent = json!({"tools": ["read_file"], "read_file": {"root": root}});
    let text = json!({
        "channels": [{"type": "telegram", "mode": "polling", "token_env": "BOT", "allow_from": ["1"]}],
        "brains": [{
            "name": "casa", "sensitivity": "private", "policy": {"kind": "priority"},
            "models": [{"provider": "ollama", "model_id": "m", "locality": "local"}],
            "agent": agent
        }],
        "routes": [{"channel": "telegram", "brain": "casa"}]
    });
    let checked = checked(&serde_json::to_string_pretty(&text).unwrap());
    let plan = checked.plan.expect("a plan");
    let told = absent(&plan, &checked.places);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0].severity, Severity::Warning);
    assert_eq!(told[0].path, "brains[0].agent.read_file.root");
    assert!(told[0].line > 1, "it has its place: {told:#?}");
    assert!(
        told[0].message.contains("notes: no such folder"),
        "{told:#?}"
    );
    std::fs::write(&root, "a file is no folder").unwrap();
    assert_eq!(absent(&plan, &checked.places).len(), 1);
    std::fs::remove_file(&root).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert_eq!(absent(&plan, &checked.places), []);
}
