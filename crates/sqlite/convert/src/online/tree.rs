//! Finds the rows of a table that may have changed from the pages that changed.
//!
//! A table with row numbers is a B+ tree: each leaf holds the rows of one range, which is recorded
//! in the pages above it. Rows can differ between two moments only in the ranges of leaves that
//! changed, that hold another range now, or that have a row with a changed overflow page.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, Statement};

use crate::error::DatabaseError;

/// Kinds of pages (SQLite's file format, 1.6).
const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;
/// Bytes of the database's header, before the content of page 1.
const HEADER_LEN: usize = 100;
/// Maximum depth of a tree: on each level but the root's, a page has at least two children.
const MAX_DEPTH: usize = 32;

/// A range of row numbers, first and last.
pub(crate) type Rows = (i64, i64);

/// The tree of one table.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tree {
    root: u32,
    /// The pages above the leaves.
    above: HashSet<u32>,
    leaves: HashMap<u32, Rows>,
}

/// The trees of all tables that have row numbers, by the tables' names.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: HashMap<String, Tree>,
    /// For each page, from 0, the leaf that owns it as an overflow page; 0 if there is none, or was
    /// none at the last scan.
    owners: Vec<u32>,
}

impl Trees {
    /// Updates to the trees of the database `db`, in which the pages `changed` differ from those in
    /// `self`; `None` means all. Also returns, for each table, the ranges of rows that may differ.
    pub(crate) fn follow(
        &mut self,
        (path, db): (&Path, &Connection),
        tables: &[(String, u32)],
        changed: Option<&HashSet<u32>>,
    ) -> Result<HashMap<String, Vec<Rows>>, DatabaseError> {
        let mut pages = Pages::new(path, db)?;
        let mut dirty = HashMap::new();
        for (name, root) in tables {
            let old = self.trees.remove(name).unwrap_or_default();
            // A root that was the only leaf has no page above it, and may no longer be a leaf.
            let untouched =
                |changed: &HashSet<u32>| !changed.contains(root) && old.above.is_disjoint(changed);
            let same = old.root == *root && changed.is_some_and(untouched);
            let other = if same { None } else { Some(pages.tree(*root)?) };
            let new = other.as_ref().unwrap_or(&old);
            let mut leaves = self.differing(&old, new, changed);
            let mut ranges: Vec<Rows> =
                leaves.iter().flat_map(|leaf| both(&old, new, *leaf)).collect();
            // The current overflow pages.
            leaves.retain(|leaf| new.leaves.contains_key(leaf));
            for leaf in leaves {
                pages.note_owned(leaf, &mut self.owners)?;
            }
            let again = self.owned_changes(changed);
            ranges.extend(again.iter().flat_map(|leaf| both(&old, new, *leaf)));
            self.trees.insert(name.clone(), other.unwrap_or(old));
            if changed.is_some() && !ranges.is_empty() {
                dirty.insert(name.clone(), merged(ranges));
            }
        }
        Ok(dirty)
    }

    /// Returns the leaves that changed, hold other rows, or own a page that changed.
    fn differing(&self, old: &Tree, new: &Tree, changed: Option<&HashSet<u32>>) -> HashSet<u32> {
        let Some(changed) = changed else { return new.leaves.keys().copied().collect() };
        let mut found: HashSet<u32> = changed.iter().copied().collect();
        found.extend(self.owned_changes(Some(changed)));
        found.retain(|leaf| new.leaves.contains_key(leaf) || old.leaves.contains_key(leaf));
        if std::ptr::eq(old, new) {
            return found;
        }
        for (these, those) in [(&old.leaves, &new.leaves), (&new.leaves, &old.leaves)] {
            found.extend(
                these
                    .iter()
                    .filter(|(leaf, rows)| those.get(leaf) != Some(rows))
                    .map(|(leaf, _)| leaf),
            );
        }
        found
    }

    /// Returns the leaves with a row that has a changed overflow page.
    fn owned_changes(&self, changed: Option<&HashSet<u32>>) -> HashSet<u32> {
        let owner = |page: &u32| self.owners.get(*page as usize).copied();
        changed.into_iter().flatten().filter_map(owner).filter(|leaf| *leaf != 0).collect()
    }
}

fn both<'a>(old: &'a Tree, new: &'a Tree, leaf: u32) -> impl Iterator<Item = Rows> + 'a {
    [old, new].into_iter().filter_map(move |tree| tree.leaves.get(&leaf).copied())
}

/// Returns the same rows in disjoint ranges, in order.
fn merged(mut ranges: Vec<Rows>) -> Vec<Rows> {
    ranges.sort_unstable();
    let mut merged: Vec<Rows> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The pages of a database, read one by one.
struct Pages<'a> {
    path: &'a Path,
    read: Statement<'a>,
    /// Bytes of a page that SQLite uses.
    usable: usize,
    count: u32,
}

impl<'a> Pages<'a> {
    fn new(path: &'a Path, db: &'a Connection) -> Result<Self, DatabaseError> {
        let failed = || DatabaseError::sqlite("read the pages of", path, Some(db));
        let read = db
            .prepare("SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1")
            .map_err(failed())?;
        let count = crate::source::pragma(db, "page_count").map_err(failed())?;
        let mut pages = Self { path, read, usable: 0, count };
        let first = pages.page(1)?;
        pages.usable = first.len() - usize::from(first[20]);
        Ok(pages)
    }

    fn page(&mut self, page: u32) -> Result<Vec<u8>, DatabaseError> {
        let read = self.read.query_row([page], |row| row.get::<_, Vec<u8>>(0));
        let bytes = match read {
            Err(rusqlite::Error::QueryReturnedNoRows) => return Err(self.damaged(page)),
            read => read.map_err(DatabaseError::sqlite("read the pages of", self.path, None))?,
        };
        if bytes.len() < 512 { Err(self.damaged(page)) } else { Ok(bytes) }
    }

    /// Reads the tree whose root is page `root`.
    fn tree(&mut self, root: u32) -> Result<Tree, DatabaseError> {
        let mut tree = Tree { root, ..Tree::default() };
        // Pages of one level, with their ranges.
        let mut level = vec![(root, (i64::MIN, i64::MAX))];
        for _ in 0..MAX_DEPTH {
            let Some((page, _)) = level.first() else { return Ok(tree) };
            // All leaves are on one level.
            if self.page(*page)?.get(start(*page)) == Some(&LEAF) {
                tree.leaves.extend(level);
                return Ok(tree);
            }
            let mut below = Vec::new();
            for (page, rows) in level {
                let bytes = self.page(page)?;
                self.children(page, &bytes, rows, &mut below).ok_or_else(|| self.damaged(page))?;
                if !tree.above.insert(page) {
                    return Err(self.damaged(page));
                }
            }
            level = below;
        }
        Err(self.damaged(root))
    }

    /// Returns the children of a page above the leaves, with their ranges; `None` for other pages.
    fn children(
        &self,
        page: u32,
        bytes: &[u8],
        (mut first, last): Rows,
        below: &mut Vec<(u32, Rows)>,
    ) -> Option<()> {
        let at = start(page);
        if bytes.get(at) != Some(&INTERIOR) {
            return None;
        }
        for cell in cells(bytes, at, 12)? {
            let child = be32(bytes, cell)?;
            let (key, _) = varint(bytes, cell + 4)?;
            below.push((child, (first, key)));
            first = key.saturating_add(1);
        }
        below.push((be32(bytes, at + 8)?, (first, last)));
        Some(())
    }

    /// Records the overflow pages of a leaf's rows.
    fn note_owned(&mut self, leaf: u32, owners: &mut Vec<u32>) -> Result<(), DatabaseError> {
        let bytes = self.page(leaf)?;
        let chains = self.chains(leaf, &bytes).ok_or_else(|| self.damaged(leaf))?;
        for (mut page, len) in chains {
            for _ in 0..len {
                if page == 0 || page > self.count {
                    return Err(self.damaged(leaf));
                }
                let index = page as usize;
                if owners.len() <= index {
                    owners.resize(index + 1, 0);
                }
                owners[index] = leaf;
                page = be32(&self.page(page)?, 0).unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Returns the first page and the number of overflow pages for each row that has any.
    fn chains(&self, leaf: u32, bytes: &[u8]) -> Option<Vec<(u32, usize)>> {
        let at = start(leaf);
        if bytes.get(at) != Some(&LEAF) {
            return None;
        }
        let usable = self.usable;
        let (most, least) = (usable - 35, (usable - 12) * 32 / 255 - 23);
        let mut chains = Vec::new();
        for cell in cells(bytes, at, 8)? {
            let (len, after) = varint(bytes, cell)?;
            let len = usize::try_from(len).ok()?;
            if len <= most {
                continue;
            }
            let (_, after) = varint(bytes, after)?;
            let local = least + (len - least) % (usable - 4);
            let local = if local <= most { local } else { least };
            chains.push((be32(bytes, after + local)?, (len - local).div_ceil(usable - 4)));
        }
        Some(chains)
    }

    fn damaged(&self, page: u32) -> DatabaseError {
        let problem = format!("page {page} of the original is damaged");
        DatabaseError::Verification { path: self.path.to_owned(), problem }
    }
}

/// Returns the offset of a page's content.
fn start(page: u32) -> usize {
    if page == 1 { HEADER_LEN } else { 0 }
}

/// Returns the offsets of a page's cells. Its content begins at `at` with a header of `header_len`
/// bytes.
fn cells(bytes: &[u8], at: usize, header_len: usize) -> Option<Vec<usize>> {
    let number = usize::from(be16(bytes, at + 3)?);
    let place = |index| be16(bytes, at + header_len + 2 * index).map(usize::from);
    (0..number).map(place).collect()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a varint of SQLite, and returns it with the offset of its end.
fn varint(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut value = 0_u64;
    for index in 0..8 {
        let byte = *bytes.get(at + index)?;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value.cast_signed(), at + index + 1));
        }
    }
    let byte = *bytes.get(at + 8)?;
    Some(((value << 8 | u64::from(byte)).cast_signed(), at + 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(db: &Connection) -> Vec<(String, u32)> {
        let mut list = db.prepare("SELECT name, rootpage FROM sqlite_schema").unwrap();
        let found = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        found.map(Result::unwrap).collect()
    }

    fn pages_of(db: &Connection) -> Vec<Vec<u8>> {
        let mut list = db.prepare("SELECT data FROM sqlite_dbpage('main') ORDER BY pgno").unwrap();
        let pages = list.query_map([], |row| row.get(0)).unwrap();
        pages.map(Result::unwrap).collect()
    }

    fn rows_of(db: &Connection) -> HashMap<i64, String> {
        let mut list = db.prepare("SELECT rowid, hex(a) || typeof(a) FROM t").unwrap();
        let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn ranges_hold_every_row_that_differs_and_not_all_rows() {
        let path = Path::new("test.db");
        for vacuum in [0, 1] {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch(&format!(
                "PRAGMA page_size = 512; PRAGMA auto_vacuum = {vacuum}; CREATE TABLE t(a);
                 WITH RECURSIVE n(x) AS (SELECT -2000 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
                 INSERT INTO t(rowid, a) SELECT x * 3, randomblob(abs(x % 700)) FROM n"
            ))
            .unwrap();
            let mut trees = Trees::default();
            assert!(trees.follow((path, &db), &tables(&db), None).unwrap().is_empty());
            for round in 0..60 {
                let (before, old) = (pages_of(&db), rows_of(&db));
                let change = match round % 6 {
                    // In place, within the row's overflow pages.
                    0 => "UPDATE t SET a = randomblob(length(a)) WHERE rowid = 1200 + ?1 * 3",
                    1 => "DELETE FROM t WHERE rowid BETWEEN ?1 * 30 AND ?1 * 30 + 40",
                    2 => "INSERT INTO t(a) VALUES (randomblob(?1 * 100))",
                    3 => "INSERT INTO t(rowid, a) VALUES (?1 * 3 + 1, zeroblob(5000))",
                    4 => "UPDATE t SET rowid = rowid - 100000 WHERE rowid = ?1 * 3 + 2400",
                    _ => "UPDATE t SET a = 'short' WHERE rowid % 1000 = ?1",
                };
                db.execute(change, [round]).unwrap();
                let (after, new) = (pages_of(&db), rows_of(&db));
                let longest = before.len().max(after.len());
                let changed: HashSet<u32> = (0..longest)
                    .filter(|page| before.get(*page) != after.get(*page))
                    .map(|page| u32::try_from(page + 1).unwrap())
                    .collect();
                let dirty = trees.follow((path, &db), &tables(&db), Some(&changed)).unwrap();
                let none = Vec::new();
                let ranges = dirty.get("t").unwrap_or(&none);
                let within = |row: &i64| ranges.iter().any(|r| (r.0..=r.1).contains(row));
                let differing: Vec<&i64> = old
                    .keys()
                    .chain(new.keys())
                    .filter(|row| old.get(row) != new.get(row))
                    .collect();
                assert!(differing.iter().all(|row| within(row)), "{vacuum} {round}");
                if round % 6 < 4 && vacuum == 0 {
                    let touched = new.keys().filter(|row| within(row)).count();
                    assert!(touched < new.len() / 4, "{vacuum} {round}: {touched}");
                }
            }
        }
    }

    #[test]
    fn a_table_of_one_leaf_grows_and_shrinks() {
        let path = Path::new("test.db");
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("PRAGMA page_size = 512; CREATE TABLE t(a)").unwrap();
        let mut trees = Trees::default();
        trees.follow((path, &db), &tables(&db), None).unwrap();
        let grow = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 400)
                    INSERT INTO t SELECT randomblob(90) FROM n";
        for change in ["INSERT INTO t VALUES (1)", grow, "DELETE FROM t WHERE rowid > 1", grow] {
            let before = pages_of(&db);
            db.execute(change, []).unwrap();
            let after = pages_of(&db);
            let changed: HashSet<u32> = (0..before.len().max(after.len()))
                .filter(|page| before.get(*page) != after.get(*page))
                .map(|page| u32::try_from(page + 1).unwrap())
                .collect();
            let dirty = trees.follow((path, &db), &tables(&db), Some(&changed)).unwrap();
            let ranges = &dirty["t"];
            for row in rows_of(&db).into_keys().filter(|row| *row > 1) {
                assert!(ranges.iter().any(|r| (r.0..=r.1).contains(&row)), "{change}: {row}");
            }
        }
    }

    #[test]
    fn a_damaged_page_is_told() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE t(a); WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT
             1000) INSERT INTO t SELECT randomblob(100) FROM n",
        )
        .unwrap();
        let wrong = [("t".to_owned(), 3_u32)];
        // A single leaf as the root is a tree; a page that is not a tree page is not.
        assert!(Trees::default().follow((Path::new("x"), &db), &wrong, None).is_ok());
        db.execute("UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 3", []).unwrap();
        assert!(Trees::default().follow((Path::new("x"), &db), &wrong, None).is_err());
    }
}
