//! Telegram's HTML as its Bot API describes it, read strictly: what is not described is an error. Gives
//! the text that people see. Pure; shares nothing with the code under test.

/// The tags that are known, by the names that may stand in them.
const TAGS: [&str; 9] = [
    "b",
    "i",
    "u",
    "s",
    "code",
    "pre",
    "a",
    "blockquote",
    "tg-spoiler",
];

/// The text without its tags, or why Telegram would refuse it.
pub fn visible(html: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&', '>']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(behind) = rest.strip_prefix('&') {
            let end = behind.find(';').ok_or("an entity without an end")?;
            out.push(match &behind[..end] {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                other => return Err(format!("unknown entity {other}")),
            });
            rest = &behind[end + 1..];
        } else if let Some(behind) = rest.strip_prefix('<') {
            let end = behind.find('>').ok_or("a tag without an end")?;
            tag(&behind[..end], &mut open)?;
            rest = &behind[end + 1..];
        } else {
            return Err("a bare >".to_owned());
        }
    }
    out.push_str(rest);
    match open.last() {
        Some(tag) => Err(format!(
            "can't find end tag corresponding to start tag {tag}"
        )),
        None => Ok(out),
    }
}

fn tag(inside: &str, open: &mut Vec<String>) -> Result<(), String> {
    if let Some(name) = inside.strip_prefix('/') {
        return match open.pop() {
            Some(last) if last == name => Ok(()),
            last => Err(format!("unmatched end tag {name} within {last:?}")),
        };
    }
    let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
    if !TAGS.contains(&name) {
        return Err(format!("unsupported start tag {name}"));
    }
    let within = open.last().map(String::as_str);
    let in_code = open.iter().any(|tag| tag == "code" || tag == "pre");
    let code_of_pre = name == "code" && within == Some("pre");
    if in_code && !code_of_pre {
        return Err(format!("{name} within code"));
    }
    let emphasis = |tag: &String| ["b", "i", "u", "s", "tg-spoiler"].contains(&tag.as_str());
    if ["code", "pre"].contains(&name) && open.iter().any(emphasis) {
        return Err(format!("{name} within emphasis"));
    }
    if name == "blockquote" && open.iter().any(|tag| tag == "blockquote") {
        return Err("blockquote within blockquote".to_owned());
    }
    let fits = match name {
        "a" => attributes.starts_with("href=\"") && attributes.ends_with('"'),
        "code" if code_of_pre => {
            attributes.is_empty() || attributes.starts_with("class=\"language-")
        }
        _ => attributes.is_empty(),
    };
    if !fits {
        return Err(format!("{name} with {attributes}"));
    }
    open.push(name.to_owned());
    Ok(())
}

/// The length of a text as Telegram counts it.
pub fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[test]
fn the_peer_s_reading_of_html_is_strict() {
    for (html, text) in [
        ("a <b>b <i>c</i></b> &lt;&amp;&gt;", Some("a b c <&>")),
        (
            "<pre><code class=\"language-rust\">x</code></pre>",
            Some("x"),
        ),
        ("<a href=\"https://e.org\">x</a>", Some("x")),
        ("<b>a", None),
        ("<b>a</i>", None),
        ("<b><i>a</b></i>", None),
        ("a < b", None),
        ("a > b", None),
        ("&nbsp;", None),
        ("<h1>a</h1>", None),
        ("<b><code>a</code></b>", None),
        ("<code><b>a</b></code>", None),
        ("<blockquote><blockquote>a</blockquote></blockquote>", None),
        ("<b class=\"x\">a</b>", None),
    ] {
        assert_eq!(visible(html).ok().as_deref(), text, "{html}");
    }
}
