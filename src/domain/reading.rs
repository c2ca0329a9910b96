//! What of outside bytes can be shown as text. Pure.

/// The bytes as text, or `None` where they are something else: not UTF-8, or with a zero in them.
/// Of `cut` bytes the last character may be a part only; it is left out.
#[must_use]
pub fn text(bytes: &[u8], cut: Cut) -> Option<&str> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // No `error_len`: the bytes end within a character.
        Err(error) if cut == Cut::Yes && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Whether bytes were cut at a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// More followed.
    Yes,
    /// These are all.
    No,
}

/// Text of western Europe from before UTF-8, as web pages that name no other encoding are read
/// (Encoding Standard, windows-1252). Every byte is a character.
#[must_use]
pub fn western(bytes: &[u8]) -> String {
    /// The characters of 0x80 to 0x9f; what stands for itself is unassigned.
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    bytes
        .iter()
        .map(|byte| match byte {
            0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
            byte => char::from(*byte),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf_8_without_zeros_and_cut_between_characters() {
        for (bytes, cut, shown) in [
            (&b""[..], Cut::No, Some("")),
            ("año".as_bytes(), Cut::No, Some("año")),
            (&"año".as_bytes()[..2], Cut::Yes, Some("a")),
            (&"año".as_bytes()[..2], Cut::No, None),
            (&"😀".as_bytes()[..3], Cut::Yes, Some("")),
            (b"a\xffb", Cut::Yes, None),
            (b"a\0b", Cut::No, None),
            (b"\x7fELF\x02\x01\x01\x00", Cut::No, None),
            (b"\xff\xfea\x00", Cut::No, None),
        ] {
            assert_eq!(text(bytes, cut), shown, "{bytes:?}");
        }
    }

    #[test]
    fn western_bytes_are_all_characters() {
        assert_eq!(western(b"a\xf1o \x80 5 \x93x\x94"), "año € 5 “x”");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(western(&all).chars().count(), 256);
    }
}
