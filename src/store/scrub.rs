//! Wipes what `secure_delete` leaves behind. Runs on the store's thread, some pages at a time.
//!
//! SQLite overwrites what is deleted where it stands. But when it balances a tree it may lay a
//! page out anew (`rebuildPage` in sqlite3.c), and then copies of rows that have moved to other
//! pages stay in the page's unused middle, where no later deletion finds them. So after text has
//! been deleted for good, the unused middle of each page is overwritten.

use rusqlite::{params, Connection, OptionalExtension};

use super::error::StoreError;
use super::ticket::Kind;
use super::Store;

/// Pages looked at in one transaction.
const PAGES: i64 = 256;

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Page by page; writes only where something is left.
    Pages,
    /// By writing the whole database anew, where SQLite was built without its page table.
    Vacuum,
}

/// The unused middle of a page of a tree, as a range of its bytes; none for other pages. The
/// layout is that of sqlite.org/fileformat2.html, section 1.6.
fn unused(page: &[u8], number: i64) -> Option<std::ops::Range<usize>> {
    let header = if number == 1 { 100 } else { 0 };
    let head = page.get(header..header + 8)?;
    let pointers = header
        + match head[0] {
            2 | 5 => 12,
            10 | 13 => 8,
            // Overflow and free pages: wiped whole when they are freed.
            _ => return None,
        };
    let two = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let start = pointers + 2 * two(3);
    let end = match two(5) {
        0 => 65_536,
        end => end,
    };
    (start <= end && end <= page.len()).then_some(start..end)
}

/// Wipes the pages from `first` on, as many as one transaction takes, and says where to go on.
fn wipe(connection: &Connection, first: i64) -> rusqlite::Result<Option<i64>> {
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let last = pages.min(first.saturating_add(PAGES - 1));
    for number in first..=last {
        let page: Option<Vec<u8>> = connection
            .prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1")?
            .query_row([number], |row| row.get(0))
            .optional()?;
        let Some(mut page) = page else { continue };
        let Some(range) = unused(&page, number) else {
            continue;
        };
        if page[range.clone()].iter().any(|byte| *byte != 0) {
            page[range].fill(0);
            connection
                .prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")?
                .execute(params![number, page])?;
        }
    }
    Ok((last < pages).then_some(last + 1))
}

impl Store {
    /// Wipes what is left of deleted text in the database, then empties the log.
    pub(super) fn wipe(&self) -> Result<(), StoreError> {
        let has_pages = self.read(|connection| {
            connection.query_row(
                "SELECT sqlite_compileoption_used('ENABLE_DBPAGE_VTAB')",
                [],
                |row| row.get(0),
            )
        })?;
        self.wipe_by(if has_pages { Way::Pages } else { Way::Vacuum })
    }

    fn wipe_by(&self, way: Way) -> Result<(), StoreError> {
        // Memory is given back or used again; nobody reads it from a disk.
        if self.facts.path.is_none() {
            return Ok(());
        }
        match way {
            Way::Pages => {
                let mut next = Some(1);
                while let Some(first) = next {
                    next = self.write(move |tx| wipe(tx, first))?;
                }
            }
            Way::Vacuum => {
                self.submit(Kind::Outside, |tx| tx.execute_batch("VACUUM"), |()| None)?;
            }
        }
        match self.checkpoint()? {
            true => Ok(()),
            false => Err(StoreError::Locked),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::base::clock::{SystemClock, UnixMs};
    use crate::domain::ids::{ChannelName, Conversation};
    use crate::domain::limits::Limits;
    use crate::store::Place;

    #[test]
    fn the_unused_middle_lies_between_pointers_and_content() {
        let page = |kind: u8, cells: u16, content: u16| {
            let mut page = vec![0; 512];
            page[0] = kind;
            page[3..5].copy_from_slice(&cells.to_be_bytes());
            page[5..7].copy_from_slice(&content.to_be_bytes());
            page
        };
        for (page, number, range) in [
            (page(13, 2, 400), 2, Some(12..400)),
            (page(10, 0, 512), 2, Some(8..512)),
            (page(5, 1, 500), 2, Some(14..500)),
            (page(2, 1, 500), 2, Some(14..500)),
            (page(0, 1, 500), 2, None),
            (page(13, 2, 11), 2, None),
            (page(13, 2, 513), 2, None),
            (page(13, u16::MAX, 400), 2, None),
            (page(13, 2, 400), 1, None),
            (vec![13; 7], 2, None),
        ] {
            assert_eq!(unused(&page, number), range);
        }
    }

    fn hits(path: &Path, mark: &str) -> usize {
        std::fs::read(path)
            .unwrap()
            .windows(mark.len())
            .filter(|window| *window == mark.as_bytes())
            .count()
    }

    /// All that forgets wipes what is left, loses nothing that is there, and leaves the database
    /// whole.
    #[test]
    fn all_that_forgets_wipes_what_deleting_leaves() {
        type Forget = fn(&Store);
        let ways: [(&str, Forget); 4] = [
            ("page by page", |store| store.wipe_by(Way::Pages).unwrap()),
            ("vacuum", |store| store.wipe_by(Way::Vacuum).unwrap()),
            ("expire", |store| {
                store.expire(UnixMs(0)).unwrap();
            }),
            ("delete", |store| {
                let channel = ChannelName::new("webhook");
                store
                    .delete_conversation(&Conversation::new(&channel, "nobody"))
                    .unwrap();
            }),
        ];
        for (way, forget) in ways {
            let mut left = 0;
            for seed in 0..4 {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("korvun.db");
                let place = Place::File(path.clone());
                let store = Store::open(&place, &Limits::default(), Arc::new(SystemClock)).unwrap();
                store
                    .write(move |tx| {
                        // Rows of many sizes, of which every part deleted leaves gaps to balance.
                        tx.execute_batch(&format!(
                            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
                             INSERT INTO turns(channel, conversation, role, sender_name, text, at_ms)
                             SELECT 'webhook', i * i * 7 % 5, 'user', '',
                                    replace(hex(zeroblob(1 + (i * 7919 + {seed} * 104729) % 97
                                        * ((i + {seed}) % 7) / 5)), '00', 'MARK-' || (i * i * 7 % 5) || '-'), 0
                             FROM n;"
                        ))?;
                        for part in [4, 3, 2] {
                            for third in 0..3 {
                                tx.execute(
                                    "DELETE FROM turns WHERE conversation = ?1 AND id % 3 = ?2",
                                    params![part.to_string(), third],
                                )?;
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                store.checkpoint().unwrap();
                let text = "SELECT count(*), sum(length(text)) FROM turns";
                let sum = move |store: &Store| -> (i64, i64) {
                    store
                        .read(move |c| c.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?))))
                        .unwrap()
                };
                let before = sum(&store);
                left += (2..5)
                    .map(|part| hits(&path, &format!("MARK-{part}-")))
                    .sum::<usize>();
                forget(&store);
                for part in 2..5 {
                    assert_eq!(hits(&path, &format!("MARK-{part}-")), 0, "{way} {seed}");
                }
                assert_eq!(sum(&store), before);
                let verdict: String = store
                    .read(|c| c.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
                    .unwrap();
                assert_eq!(verdict, "ok");
                drop(store);
                let store = Store::open(&place, &Limits::default(), Arc::new(SystemClock)).unwrap();
                assert_eq!(sum(&store), before, "also after the next start");
            }
            assert!(left > 0, "nothing was left: {way} shows nothing");
        }
    }
}
