//! Tests of reading Markdown: the forms that models use, and whatever else comes.

use super::super::dice::Dice;
use super::*;

/// Marks as tags, so that a table can show them.
fn shown(source: &str) -> String {
    let rich = read(source);
    let mut order: Vec<usize> = (0..rich.marks.len()).collect();
    order.sort_by_key(|n| {
        let range = &rich.marks[*n].range;
        (range.start, usize::MAX - range.end, usize::MAX - n)
    });
    let mut out = String::new();
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut next = order.into_iter().peekable();
    for (at, c) in rich.text.char_indices().chain([(rich.text.len(), '\0')]) {
        while open.last().is_some_and(|(end, _)| *end == at) {
            out.push('}');
            open.pop();
        }
        while let Some(n) = next.next_if(|n| rich.marks[*n].range.start == at) {
            let letter = match &rich.marks[n].look {
                Look::Bold => 'b',
                Look::Italic => 'i',
                Look::Strike => 's',
                Look::Code => 'c',
                Look::Block(_) => 'p',
                Look::Quote => 'q',
                Look::Link(_) => 'a',
            };
            out.push_str(&format!("{letter}{{"));
            open.push((rich.marks[n].range.end, letter));
        }
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

#[test]
fn what_models_write_is_read() {
    for (source, expected) in [
        ("plain", "plain"),
        ("two\nlines", "two\nlines"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("**b** *i* ~~s~~ `c`", "b{b} i{i} s{s} c{c}"),
        ("**b *i* `c` b**", "b{b i{i} }c{c}b{ b}"),
        ("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4"),
        ("# Title\ntext", "b{Title}\n\ntext"),
        ("## **All** bold", "b{All bold}"),
        ("a\n***\nb", "a\n\n———\n\nb"),
        ("- a\n- b\n  - c\n  - d\n- e", "• a\n• b\n  • c\n  • d\n• e"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- a\n\n  more\n- b", "• a\n\nmore\n\n• b"),
        ("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"),
        ("text:\n- a", "text:\n\n• a"),
        ("```rust\nfn a() {}\n\n  b\n```", "p{fn a() {}\n\n  b}"),
        ("a\n```\nx\n```\nb", "a\n\np{x}\n\nb"),
        ("```\nnever closed", "p{never closed}"),
        ("- a\n  ```\n  x\n  ```\n- b", "• a\np{x}\n• b"),
        ("> q\n> r\n\nb", "q{q\nr}\n\nb"),
        ("> a\n> > b", "q{a\n\nb}"),
        ("> a\n> ```\n> x\n> ```\n> b", "q{a}\n\np{x}\n\nq{b}"),
        ("[t](https://e.org/x)", "a{t}"),
        ("**[t](https://e.org)**", "b{a{t}}"),
        ("[`c`](https://e.org)", "a{c}"),
        ("[t](/local)", "t (/local)"),
        ("[t](javascript:x)", "t (javascript:x)"),
        ("<https://e.org>", "a{https://e.org}"),
        ("<me@e.org>", "me@e.org"),
        ("![alt](https://e.org/p.png)", "a{alt}"),
        ("![](https://e.org/p.png)", "a{https://e.org/p.png}"),
        ("Vec<String> & <b>x</b>", "Vec<String> & <b>x</b>"),
        ("a<br>b", "a\nb"),
        ("<div>\nx\n</div>", "<div>\nx\n</div>"),
        (
            "see [1]\n\n[1]: https://e.org",
            "see a{1}\n\n[1]: https://e.org",
        ),
        (
            "|a|b|\n|-|-|\n|1|two **b**|",
            "p{a | b\n--+------\n1 | two b}",
        ),
        ("\\*not\\* &amp; &copy;", "*not* & ©"),
        ("    indented", "p{indented}"),
    ] {
        assert_eq!(shown(source), expected, "{source:?}");
    }
}

#[test]
fn a_language_is_a_name_or_nothing() {
    for (info, language) in [
        ("rust", "rust"),
        ("c++ title", "c++"),
        ("rust,ignore", "rust"),
        ("\"><b>", ""),
        ("", ""),
    ] {
        assert_eq!(language_of(info), language, "{info}");
    }
}

#[test]
fn whatever_is_written_no_word_goes_missing_and_marks_are_nested() {
    let pieces = [
        "word",
        "**",
        "*",
        "_",
        "~~",
        "`",
        "```",
        "```\n",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "# ",
        "|",
        "|-|-|\n",
        "[",
        "](https://e.org)",
        "]",
        "(",
        ")",
        "!",
        "<b>",
        "</b>",
        "<",
        "&",
        "&lt;",
        "\\",
        " ",
        "  ",
        "    ",
        "😀",
        "שלום",
        "e\u{301}",
        "[r]: https://x",
        "---\n",
        "\t",
        "\0",
        "\u{202e}",
    ];
    let mut dice = Dice::new(5);
    for round in 0..4000 {
        let mut words = 0;
        let source: String = (0..dice.roll(60))
            .map(|_| match pieces[dice.roll(pieces.len())] {
                "word" => {
                    words += 1;
                    format!("w{words}w")
                }
                piece => piece.to_owned(),
            })
            .collect();
        let rich = read(&source);
        for n in 1..=words {
            // A word may be the address or the title of a link, or the language of a block.
            let word = format!("w{n}w");
            let in_mark = rich.marks.iter().any(|mark| match &mark.look {
                Look::Block(text) | Look::Link(text) => text.contains(&word),
                _ => false,
            });
            assert!(
                rich.text.contains(&word) || in_mark || source.contains("```"),
                "round {round}: {word} of {source:?} is not in {rich:?}"
            );
        }
        for (n, a) in rich.marks.iter().enumerate() {
            assert!(a.range.start < a.range.end && rich.text.get(a.range.clone()).is_some());
            for b in &rich.marks[n + 1..] {
                let apart = a.range.end <= b.range.start || b.range.end <= a.range.start;
                let inside = a.range.start >= b.range.start && a.range.end <= b.range.end;
                assert!(
                    apart
                        || inside
                        || (b.range.start >= a.range.start && b.range.end <= a.range.end),
                    "round {round}: {a:?} crosses {b:?} in {source:?}"
                );
                let code = |mark: &Mark| matches!(mark.look, Look::Code | Look::Block(_));
                assert!(apart || !(code(a) && code(b)), "round {round}: {source:?}");
            }
        }
    }
}

#[test]
fn a_wide_table_of_short_rows_stays_short() {
    let (columns, rows) = (500, 500);
    let source = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(columns),
        "-|".repeat(columns),
        "|b\n".repeat(rows)
    );
    let text = read(&source).text;
    assert!(
        text.len() < 3 * source.len(),
        "{} of {}",
        text.len(),
        source.len()
    );
    assert_eq!(text.lines().filter(|line| *line == "b").count(), rows);
    assert_eq!(
        read("|a|b|c|\n|-|-|-|\n||2||\n||||").text,
        "a | b | c\n--+---+--\n  | 2",
    );
}

#[test]
fn a_text_nested_a_hundred_thousand_times_is_read_at_once() {
    let deep = 100_000;
    let around =
        |before: &str, after: &str| format!("{}x{}", before.repeat(deep), after.repeat(deep));
    for source in [
        around("*a **b ", " b** a*"),
        around("*a ", ""),
        around("![a", "](b)"),
        around("> ", ""),
        around("- ", ""),
        around("~~_", "_~~"),
        around("[", "](mailto:a)"),
        "|a".repeat(deep) + "\n" + &"|-".repeat(deep),
    ] {
        let begun = std::time::Instant::now();
        let rich = read(&source);
        let taken = begun.elapsed();
        println!("{:?}: {taken:?}, {} marks", &source[..8], rich.marks.len());
        // A second or less; what grows with the square takes minutes.
        assert!(taken.as_secs() < 20, "{taken:?} for {:?}…", &source[..8]);
    }
}
