//! The way by which a path leads to its file: directories and links.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Most links on a way, as in Linux.
const MAX_LINKS: usize = 40;

/// Returns each directory and link by which a path leads to its file, and that file last. No link
/// is above any of them. Where nothing is there, the rest of the path stands for itself.
///
/// # Errors
/// For an empty path, too many links, and a link that cannot be read.
pub(crate) fn way(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut at, mut places, mut links) = (PathBuf::new(), Vec::new(), 0);
    let named = std::path::absolute(path)?;
    let mut left = reversed(&named);
    while let Some(next) = left.pop() {
        match next.components().next() {
            None | Some(Component::CurDir) => continue,
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(_) => at.push(next),
        }
        if !fs::symlink_metadata(&at).is_ok_and(|facts| facts.is_symlink()) {
            places.push(at.clone());
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = fs::read_link(&at)?;
        places.push(at.clone());
        at.pop();
        left.extend(reversed(&target));
    }
    Ok(places)
}

/// Returns the path of what a path leads to, without links, also where nothing is there.
///
/// # Errors
/// For an empty path, too many links, and a link that cannot be read.
pub fn led_to(path: &Path) -> io::Result<PathBuf> {
    let last = way(path)?.pop();
    last.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Returns the components of a path, the last one first.
fn reversed(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|component| PathBuf::from(component.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_to_one_place_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        symlink(real.join("a"), real.join("whole")).unwrap();
        symlink("a/b/../b", real.join("short")).unwrap();
        symlink("whole/none", real.join("gone")).unwrap();
        for (named, leads) in [
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("whole/b", "a/b"),
            ("short", "a/b"),
            ("short/..", "a"),
            ("none", "none"),
            ("./none/", "none"),
            ("a/../none/x/../y", "none/y"),
            ("short/none", "a/b/none"),
            ("gone", "a/none"),
            ("gone/../b", "a/b"),
        ] {
            assert_eq!(led_to(&real.join(named)).unwrap(), real.join(leads), "{named}");
        }
        for there in ["a/b", "whole/b", "short", "short/.."] {
            let there = real.join(there);
            assert_eq!(led_to(&there).unwrap(), there.canonicalize().unwrap());
        }
        symlink("round", real.join("round")).unwrap();
        assert!(led_to(&real.join("round")).is_err() && led_to(Path::new("")).is_err());
    }

    #[test]
    fn each_link_and_directory_is_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for name in ["one", "two", "three"] {
            fs::create_dir(real.join(name)).unwrap();
        }
        fs::write(real.join("three/file"), "").unwrap();
        symlink("../two/link", real.join("one/link")).unwrap();
        symlink("../three/file", real.join("two/link")).unwrap();
        let places = way(&real.join("one/link")).unwrap();
        for place in ["one", "one/link", "two", "two/link", "three", "three/file"] {
            assert!(places.contains(&real.join(place)), "{place}: {places:?}");
        }
        assert_eq!(places.last(), Some(&real.join("three/file")));
    }
}
