//! Tables for skills: which files are good, what is said of the others, and what joins a prompt.

use super::*;

const GOOD: &str = "---\nname: notes\ndescription: Keeps notes. Use it when asked to remember.\n---\n\n# Notes\n\nDo it.\n";

fn read_as(folder: &str, text: &str) -> Result<Read, Refused> {
    parse(folder, text.as_bytes())
}

#[test]
fn a_good_file_becomes_a_skill() {
    let read = read_as("notes", GOOD).expect("good");
    assert_eq!(
        read.skill,
        Skill {
            name: "notes".into(),
            description: "Keeps notes. Use it when asked to remember.".into(),
            body: "# Notes\n\nDo it.".into(),
            allowed_tools: Vec::new(),
        }
    );
    assert!(read.warnings.is_empty());
    // As editors of other systems write it.
    for text in [
        format!("\u{feff}{GOOD}"),
        GOOD.replace('\n', "\r\n"),
        GOOD.replace('\n', "\r"),
        GOOD.replace("---\n", "---  \n"),
        GOOD.trim_end().to_owned(),
        GOOD.replace("notes\n", "'notes'  # the name\n"),
        GOOD.replace("name: notes", "name: >\n  notes"),
    ] {
        assert_eq!(read_as("notes", &text).expect(&text), read, "{text:?}");
    }
}

#[test]
fn a_skill_may_be_all_head() {
    for text in [
        "---\nname: a\ndescription: b\n---",
        "---\nname: a\ndescription: b\n---\n\n",
    ] {
        assert_eq!(read_as("a", text).expect(text).skill.body, "");
    }
}

#[test]
fn a_bad_file_is_told_by_what_is_wrong() {
    let long_name = "n".repeat(65);
    let long = "d".repeat(1025);
    for (folder, text, line, what) in [
        (
            "a",
            String::new(),
            Some(1),
            "must begin with a line of three dashes",
        ),
        ("a", "# A\n".into(), Some(1), "must begin"),
        ("a", "\n---\nname: a\n---\n".into(), Some(1), "must begin"),
        (
            "a",
            "---\nname: a\ndescription: b\n".into(),
            None,
            "a second line of three dashes",
        ),
        ("a", "---\n---\n".into(), Some(2), "no list of keys"),
        (
            "a",
            "---\nname: a\ndescription: [\n---\n".into(),
            Some(4),
            "",
        ),
        (
            "a",
            "---\nname: a\nname: a\ndescription: b\n---\n".into(),
            Some(3),
            "`name` stands twice",
        ),
        (
            "a",
            "---\ndescription: b\n---\n".into(),
            None,
            "`name` is missing",
        ),
        (
            "a",
            "---\nNAME: a\ndescription: b\n---\n".into(),
            None,
            "`name` is missing",
        ),
        (
            "a",
            "---\nname:\ndescription: b\n---\n".into(),
            None,
            "`name` is empty",
        ),
        (
            "a",
            "---\nname: [a]\ndescription: b\n---\n".into(),
            None,
            "must be a word",
        ),
        (
            "a",
            "---\nname: a\n---\n".into(),
            None,
            "`description` is missing",
        ),
        (
            "a",
            "---\nname: a\ndescription: ' '\n---\n".into(),
            None,
            "`description` is empty",
        ),
        (
            "a",
            "---\nname: a\ndescription: {b: c}\n---\n".into(),
            None,
            "must be a text",
        ),
        (
            "a",
            format!("---\nname: a\ndescription: {long}\n---\n"),
            None,
            "longer than 1024",
        ),
        (
            &long_name,
            format!("---\nname: {long_name}\ndescription: b\n---\n"),
            None,
            "longer than 64",
        ),
        (
            "A",
            "---\nname: A\ndescription: b\n---\n".into(),
            None,
            "small letters",
        ),
        (
            "a_b",
            "---\nname: a_b\ndescription: b\n---\n".into(),
            None,
            "small letters",
        ),
        (
            "a b",
            "---\nname: a b\ndescription: b\n---\n".into(),
            None,
            "small letters",
        ),
        (
            "\u{f1}u",
            "---\nname: \u{f1}u\ndescription: b\n---\n".into(),
            None,
            "small letters",
        ),
        (
            "-a",
            "---\nname: -a\ndescription: b\n---\n".into(),
            None,
            "single hyphens only between",
        ),
        (
            "a-",
            "---\nname: a-\ndescription: b\n---\n".into(),
            None,
            "single hyphens only between",
        ),
        (
            "a--b",
            "---\nname: a--b\ndescription: b\n---\n".into(),
            None,
            "single hyphens only between",
        ),
        (
            "b",
            "---\nname: a\ndescription: b\n---\n".into(),
            None,
            "not the name of its folder, `b`",
        ),
        (
            "a",
            "---\nname: a\ndescription: b\0\n---\n".into(),
            None,
            "zero byte",
        ),
    ] {
        let refused = read_as(folder, &text).expect_err(&text);
        assert!(refused.what.contains(what), "{text:?}: {refused:?}");
        assert_eq!(refused.line, line, "{text:?}: {refused:?}");
    }
    assert_eq!(
        parse("a", b"---\nname: a\xff\n---\n")
            .expect_err("bytes")
            .what,
        "it is not UTF-8"
    );
}

#[test]
fn the_bounds_themselves_are_good() {
    let (name, description) = ("n".repeat(64), "\u{f1}".repeat(1024));
    let text = format!("---\nname: {name}\ndescription: >\n  {description}\n---\n");
    let read = read_as(&name, &text).expect("good");
    assert_eq!(read.skill.description, description);
}

#[test]
fn what_is_odd_is_a_warning() {
    for (lines, warnings) in [
        ("version: 1\n", &["`version` is unknown"][..]),
        (
            "author: x\ntags: [a, b]\n",
            &["`author` is unknown", "`tags` is unknown"],
        ),
        (
            "license: MIT\nmetadata:\n  author: x\n  version: '1'\ncompatibility: any\n",
            &[],
        ),
        ("license: see: LICENSE\n", &["`license` is no YAML"]),
        (
            "allowed-tools: {a: b}\n",
            &["`allowed-tools` is not a list"],
        ),
        (
            "allowed-tools: [a, [b]]\n",
            &["`allowed-tools` is not a list"],
        ),
    ] {
        let text = format!("---\nname: a\ndescription: b\n{lines}---\n");
        let read = read_as("a", &text).expect(&text);
        assert_eq!(read.warnings.len(), warnings.len(), "{text}: {read:?}");
        for (found, wanted) in read.warnings.iter().zip(warnings) {
            assert!(found.contains(wanted), "{text}: {found}");
        }
    }
    let long = format!(
        "---\nname: a\ndescription: b\ncompatibility: {}\n---\n",
        "x".repeat(501)
    );
    assert_eq!(read_as("a", &long).expect("good").warnings.len(), 1);
}

#[test]
fn allowed_tools_are_recorded_as_they_are_written() {
    for (value, tools) in [
        ("webhook_call time", &["webhook_call", "time"][..]),
        ("webhook_call, time", &["webhook_call", "time"]),
        (
            "Bash(git add *) Bash(jq:*),Read",
            &["Bash(git add *)", "Bash(jq:*)", "Read"],
        ),
        ("[Read, 'Write']", &["Read", "Write"]),
        ("\n  - Read\n  - Bash(a, b)", &["Read", "Bash(a, b)"]),
        ("", &[]),
        ("a) b", &["a)", "b"]),
        ("a(b c", &["a(b c"]),
    ] {
        let text = format!("---\nname: a\ndescription: b\nallowed-tools: {value}\n---\n");
        assert_eq!(
            read_as("a", &text).expect(&text).skill.allowed_tools,
            tools,
            "{value}"
        );
    }
}

#[test]
fn a_description_is_one_line_that_nothing_can_break() {
    let text = "---\nname: a\ndescription: \"b\\n- c: d\\e[2J\\u2028e\"\n---\n";
    assert_eq!(
        read_as("a", text).expect("good").skill.description,
        "b - c: d [2J e"
    );
}

fn skill(name: &str, body: &str) -> Skill {
    Skill {
        name: name.into(),
        description: format!("About {name}."),
        body: body.into(),
        allowed_tools: vec!["time".into()],
    }
}

#[test]
fn names_and_descriptions_always_join_and_bodies_that_fit() {
    let skills = [
        skill("c", "12345"),
        skill("a", "\u{f1}\u{f1}\u{f1}\u{f1}"),
        skill("b", "123456"),
        skill("d", ""),
    ];
    let names = "Skills tell when and how to use your tools:\n- a: About a.\n- b: About b.\n- c: About c.\n- d: About d.";
    let (a, b, c) = (
        "\n\n<skill name=\"a\">\n\u{f1}\u{f1}\u{f1}\u{f1}\n</skill>",
        "\n\n<skill name=\"b\">\n123456\n</skill>",
        "\n\n<skill name=\"c\">\n12345\n</skill>",
    );
    for (budget, bodies, out) in [
        (0, String::new(), &["a", "b", "c"][..]),
        (3, String::new(), &["a", "b", "c"]),
        (4, a.into(), &["b", "c"]),
        // The next one does not fit; a later, smaller one still does.
        (9, format!("{a}{c}"), &["b"]),
        (10, format!("{a}{b}"), &["c"]),
        (14, format!("{a}{b}"), &["c"]),
        (15, format!("{a}{b}{c}"), &[]),
        (u32::MAX, format!("{a}{b}{c}"), &[]),
    ] {
        assert_eq!(
            section(&skills, budget),
            format!("{names}{bodies}"),
            "{budget}"
        );
        assert_eq!(left_out(&skills, budget), out, "{budget}");
    }
    assert_eq!(section(&[], 100), "");
}

#[test]
fn the_same_skills_give_the_same_bytes_in_any_order() {
    let mut skills = vec![skill("c", "3"), skill("a", "1"), skill("b", "2")];
    let once = section(&skills, 2);
    skills.reverse();
    assert_eq!(section(&skills, 2), once);
    skills.swap(0, 1);
    assert_eq!(section(&skills, 2), once);
}

#[test]
fn what_a_skill_would_like_to_be_allowed_never_reaches_a_model() {
    let one = Skill {
        allowed_tools: vec!["read_file(secret)".into()],
        ..skill("a", "body")
    };
    assert!(!section(&[one], 100).contains("read_file"));
}
