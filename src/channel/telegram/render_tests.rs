//! Tests of answers as Telegram takes them.

use super::*;

fn one(markdown: &str) -> String {
    let parts = parts(markdown);
    assert_eq!(parts.len(), 1, "{markdown:?}");
    parts[0].html.clone()
}

fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn markdown_becomes_telegram_s_html() {
    for (markdown, html) in [
        ("a < b && \"c\"", "a &lt; b &amp;&amp; &quot;c&quot;"),
        (
            "**b *i* b** `x<y`",
            "<b>b <i>i</i> b</b> <code>x&lt;y</code>",
        ),
        ("***both***", "<i><b>both</b></i>"),
        (
            "```rust\nlet a = 1;\n```",
            "<pre><code class=\"language-rust\">let a = 1;</code></pre>",
        ),
        ("```\na\n```", "<pre><code>a</code></pre>"),
        ("> quoted", "<blockquote>quoted</blockquote>"),
        (
            "[t](<https://e.org/\"x>)",
            "<a href=\"https://e.org/&quot;x\">t</a>",
        ),
        (
            "[t](https://e.org/?a=1&b=2)",
            "<a href=\"https://e.org/?a=1&amp;b=2\">t</a>",
        ),
        ("<b>not ours</b>", "&lt;b&gt;not ours&lt;/b&gt;"),
        ("# T\n\n~~s~~", "<b>T</b>\n\n<s>s</s>"),
        ("****", "———"),
        // What is nothing but markup is shown as it was written.
        ("[a]: x", "[a]: x"),
        ("- ", "•"),
    ] {
        assert_eq!(one(markdown), html, "{markdown:?}");
    }
    assert_eq!(parts(" \n "), []);
}

#[test]
fn a_fence_is_closed_and_opened_again() {
    let code = (0..1500)
        .map(|n| format!("line {n}"))
        .collect::<Vec<_>>()
        .join("\n");
    let parts = parts(&format!("before\n\n```py\n{code}\n```\n\n**after**"));
    assert!(parts.len() >= 3);
    for (n, part) in parts.iter().enumerate() {
        assert!(part.plain.encode_utf16().count() <= PART_MOST);
        if n > 0 {
            assert!(
                part.html
                    .starts_with("<pre><code class=\"language-py\">line "),
                "{n}"
            );
        }
        assert_eq!(
            part.html.matches("<pre>").count(),
            part.html.matches("</pre>").count()
        );
    }
    assert!(parts[0].html.starts_with("before\n\n<pre>"));
    assert!(parts
        .last()
        .unwrap()
        .html
        .ends_with("</code></pre>\n\n<b>after</b>"));
    let joined: String = parts.iter().map(|part| part.plain.as_str()).collect();
    assert_eq!(bare(&joined), bare(&format!("before{code}after")));
}

#[test]
fn emphasis_over_a_cut_goes_on() {
    let parts = parts(&format!("**{}**", "word ".repeat(1200).trim_end()));
    assert_eq!(parts.len(), 2);
    for part in &parts {
        assert!(part.html.starts_with("<b>word") && part.html.ends_with("word</b>"));
    }
}

#[test]
fn an_emoji_at_the_edge_goes_whole_into_one_part() {
    let parts = parts(&format!("{}😀😀", "x".repeat(PART_MOST - 1)));
    let texts: Vec<&str> = parts.iter().map(|part| part.plain.as_str()).collect();
    assert_eq!(texts[0], "x".repeat(PART_MOST - 1));
    assert_eq!(texts[1], "😀😀");
}
