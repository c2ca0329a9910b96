//! What `make install` lays out is what the unit expects, what `make uninstall` leaves is what a
//! person would miss, and the unit is one that systemd understands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::rig;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn unit() -> String {
    fs::read_to_string(top().join("contrib/systemd/korvun.service")).unwrap()
}

/// Runs make with the program that the tests were built with in place of a release.
fn make(target: &str, variables: &[String]) -> Output {
    let ran = Command::new("make")
        .arg("--no-print-directory")
        .arg(target)
        .arg(format!("BINARY={}", env!("CARGO_BIN_EXE_korvun")))
        .args(variables)
        .current_dir(top())
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make runs");
    assert!(
        ran.status.success(),
        "make {target}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ran
}

/// The words of a unit's setting, over all its lines.
fn setting<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .flat_map(str::split_whitespace)
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn install_lays_out_what_the_unit_expects() {
    for prefix in ["/usr/local", "/opt/korvun"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let variables = [
            format!("DESTDIR={}", root.display()),
            format!("PREFIX={prefix}"),
        ];
        let at = |path: &str| root.join(path.trim_start_matches('/'));
        make("install", &variables);

        let unit_path = at(&format!("{prefix}/lib/systemd/system/korvun.service"));
        let installed = fs::read_to_string(&unit_path).unwrap();
        let start = setting(&installed, "ExecStart");
        let config = at("/etc/korvun/korvun.json");
        assert_eq!(start[0], format!("{prefix}/bin/korvun"));
        assert_eq!(
            at(start[3]),
            config,
            "the unit names the configuration that was installed"
        );
        assert_eq!(mode(&at(start[0])), 0o755);
        assert_eq!((mode(&config), mode(&unit_path)), (0o644, 0o644));
        assert_eq!(
            fs::read(&config).unwrap(),
            fs::read(top().join("korvun.example.json")).unwrap()
        );
        let ran = Command::new(at(start[0]))
            .args(["config", "check"])
            .arg(&config)
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stdout)
        );

        // What a person has written since is not touched, neither by another install nor by removal.
        fs::write(&config, "mine").unwrap();
        let data = at("/var/lib/korvun/korvun.db");
        fs::create_dir_all(data.parent().unwrap()).unwrap();
        fs::write(&data, "data").unwrap();
        make("install", &variables);
        assert_eq!(fs::read(&config).unwrap(), b"mine");
        make("uninstall", &variables);
        assert_eq!(fs::read(&config).unwrap(), b"mine");
        assert_eq!(fs::read(&data).unwrap(), b"data");
        let mut left = Vec::new();
        files(root, &mut left);
        left.sort();
        assert_eq!(left, [config, data], "nothing else is left");

        // A link that leads nowhere yet is a configuration of somebody's too.
        let config = at("/etc/korvun/korvun.json");
        fs::remove_file(&config).unwrap();
        std::os::unix::fs::symlink("elsewhere.json", &config).unwrap();
        make("install", &variables);
        assert!(fs::symlink_metadata(&config).unwrap().is_symlink());
    }
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), out);
        } else {
            out.push(entry.path());
        }
    }
}

#[test]
fn make_alone_prints_every_target_and_runs_nothing() {
    let ran = make("help", &[]);
    let alone = Command::new("make")
        .arg("--no-print-directory")
        .current_dir(top())
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .unwrap();
    assert_eq!(ran.stdout, alone.stdout);
    let menu = String::from_utf8(ran.stdout).unwrap();
    let makefile = fs::read_to_string(top().join("Makefile")).unwrap();
    let targets = makefile
        .lines()
        .filter_map(|line| line.strip_prefix(".PHONY: "));
    for target in targets {
        let shown = menu
            .lines()
            .any(|line| line.split_whitespace().next() == Some(target));
        assert!(shown, "{target} is not in the menu:\n{menu}");
    }
    assert!(
        !makefile.contains("apt-get"),
        "make never installs packages"
    );
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    let unit = unit();
    for (name, value) in [
        ("Type", &["notify"][..]),
        ("RestartPreventExitStatus", &["78", "2"]),
        ("StateDirectory", &["korvun"]),
        ("RuntimeDirectory", &["korvun"]),
        (
            "Environment",
            &[
                "MALLOC_ARENA_MAX=1",
                "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
                "XDG_CONFIG_HOME=/var/lib",
            ],
        ),
    ] {
        assert_eq!(setting(&unit, name), value, "{name}");
    }
    for credential in setting(&unit, "LoadCredential") {
        assert!(
            !credential.contains(':'),
            "{credential}: a missing file would stop the unit"
        );
    }
    let mut reason = false;
    for line in unit
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('['))
    {
        if line.starts_with('#') {
            reason = true;
        } else if !line.starts_with("Description") && !line.starts_with("Documentation") {
            assert!(
                reason || line.starts_with("WantedBy"),
                "{line}: no reason above it"
            );
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("korvun.service");
    let here = unit.replace("/usr/local/bin/korvun", env!("CARGO_BIN_EXE_korvun"));
    fs::write(&path, here).unwrap();
    let ran = match Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output()
    {
        Ok(ran) => ran,
        Err(error) => return rig::missing("systemd-analyze", &error.to_string()),
    };
    let said =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.trim().is_empty(), "{said}");
}
