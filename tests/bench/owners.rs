//! Who owns the bytes of the binary: reads the sections and the symbols of an ELF file (64 bit, little
//! endian) and sums them by crate. Fields as in the System V ABI, chapter 4, "Object Files".

use std::collections::BTreeMap;

/// One section.
struct Section<'a> {
    name: &'a str,
    kind: u32,
    flags: u64,
    offset: usize,
    size: usize,
    link: usize,
    entry: usize,
}

/// What the file holds.
#[derive(Debug, Default)]
pub struct Owners {
    /// Bytes of the file without symbols, as `strip` leaves it (to a few hundred bytes).
    pub stripped: usize,
    /// Code by owner, the largest first.
    pub code: Vec<(String, usize)>,
    /// Loaded sections by name, the largest first.
    pub sections: Vec<(String, usize)>,
}

const NO_BITS: u32 = 8;
const SYMBOLS: u32 = 2;
const LOADED: u64 = 2;

/// Reads `file`; `None` when it is not such an ELF file.
pub fn owners(file: &[u8]) -> Option<Owners> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let sections = sections(file)?;
    let mut told = Owners {
        stripped: file.len(),
        ..Owners::default()
    };
    for section in &sections {
        if section.flags & LOADED != 0 && section.kind != NO_BITS {
            told.sections.push((section.name.to_owned(), section.size));
        } else if [".symtab", ".strtab"].contains(&section.name)
            || section.name.starts_with(".debug")
        {
            told.stripped -= section.size;
        }
    }
    told.sections
        .sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let table = sections.iter().find(|section| section.kind == SYMBOLS)?;
    let names = sections.get(table.link)?;
    told.code = code(file, table, names)?;
    Some(told)
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let slice = file.get(at..at + bytes)?;
    Some(
        slice
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

fn word(file: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number(file, at, 8)?).ok()
}

fn text(file: &[u8], at: usize) -> Option<&str> {
    let rest = file.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let (start, size) = (word(file, 0x28)?, number(file, 0x3a, 2)? as usize);
    let (count, names) = (
        number(file, 0x3c, 2)? as usize,
        number(file, 0x3e, 2)? as usize,
    );
    let names = word(file, start + names * size + 0x18)?;
    (0..count)
        .map(|index| {
            let at = start + index * size;
            Some(Section {
                name: text(file, names + number(file, at, 4)? as usize)?,
                kind: number(file, at + 4, 4)? as u32,
                flags: number(file, at + 8, 8)?,
                offset: word(file, at + 0x18)?,
                size: word(file, at + 0x20)?,
                link: number(file, at + 0x28, 4)? as usize,
                entry: word(file, at + 0x38)?,
            })
        })
        .collect()
}

/// Sizes of functions by owner. A local symbol of a C file follows the symbol that names its file.
fn code(file: &[u8], table: &Section<'_>, names: &Section<'_>) -> Option<Vec<(String, usize)>> {
    const FILE: u8 = 4;
    const FUNCTION: u8 = 2;
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    let mut source = "";
    for index in 0..table.size / table.entry.max(1) {
        let at = table.offset + index * table.entry;
        let info = *file.get(at + 4)?;
        let name = text(file, names.offset + number(file, at, 4)? as usize)?;
        if info & 0xf == FILE {
            source = name;
        }
        let (value, size) = (word(file, at + 8)?, word(file, at + 16)?);
        // Identical functions are folded onto one address: counted once.
        if info & 0xf == FUNCTION && size > 0 && seen.insert(value) {
            let local = info >> 4 == 0;
            *sums
                .entry(owner(name, if local { source } else { "" }))
                .or_default() += size;
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    Some(sums)
}

/// The crate or C library that a symbol belongs to.
fn owner(symbol: &str, source: &str) -> String {
    if let Some(rest) = symbol.strip_prefix("_ZN") {
        return legacy(rest).unwrap_or("rust, unnamed").to_owned();
    }
    if let Some(rest) = symbol.strip_prefix("_R") {
        return v0(rest).unwrap_or("rust, unnamed").to_owned();
    }
    if symbol.starts_with("sqlite3") || source.starts_with("sqlite3") {
        return "sqlite (C)".to_owned();
    }
    if symbol.contains("ring_core")
        || [
            "bcm",
            "curve25519",
            "crypto.c",
            "ecp",
            "p256",
            "montgomery",
            "aes_nohw",
            "x86_64",
        ]
        .iter()
        .any(|part| source.contains(part))
    {
        return "ring (C and assembly)".to_owned();
    }
    "other C and run time".to_owned()
}

/// The first crate named in `LENGTH NAME LENGTH NAME ... E` after `_ZN`. An implementation's first part
/// is `_$LT$TYPE$u20$as$u20$TRAIT$GT$` or the like: the type's crate counts, the trait's when the type
/// has none.
fn legacy(rest: &str) -> Option<&str> {
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    let length: usize = rest[..digits].parse().ok()?;
    let part = rest.get(digits..digits + length)?;
    if !part.contains('$') {
        return Some(part);
    }
    let starts = part.split("..").collect::<Vec<_>>();
    // Every `crate..` is followed by a path; take the last name before the first `..`.
    let first = starts.first()?;
    let name = first
        .rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .next()?;
    let name = name.trim_start_matches('_');
    (starts.len() > 1 && !name.is_empty())
        .then_some(name)
        .or(Some("core"))
}

/// The first crate root, `C` with an optional `sHASH_` and a counted name, of a v0 symbol.
fn v0(rest: &str) -> Option<&str> {
    for (at, _) in rest.match_indices('C') {
        let mut tail = &rest[at + 1..];
        if let Some(hash) = tail.strip_prefix('s') {
            tail = &hash[hash.find('_')? + 1..];
        }
        let Some(digits) = tail.find(|letter: char| !letter.is_ascii_digit()) else {
            continue;
        };
        let Ok(length) = tail[..digits].parse::<usize>() else {
            continue;
        };
        let name = tail[digits..].strip_prefix('_').unwrap_or(&tail[digits..]);
        if let Some(name) = name.get(..length) {
            return Some(name);
        }
    }
    None
}
