//! Owner and permissions of restored files.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use tdekit_key_store::give_to_owner_of_directory;

use crate::RunError;

/// Owner and permissions that a restored file gets before it has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ownership {
    /// User and group by number. By default the process's own, or for root those of the directory.
    pub owner: Option<(u32, u32)>,
    /// Permission bits. By default only its owner can read and write it.
    pub mode: Option<u32>,
}

impl Ownership {
    /// Parses `USER` or `USER:GROUP`, names of `/etc/passwd` and `/etc/group` or numbers. Without a
    /// group it is the user's own; a number that is no user's needs one.
    ///
    /// # Errors
    /// The reason, for the user.
    pub fn parse_owner(text: &str) -> Result<(u32, u32), String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        owner_of(text, &read("/etc/passwd"), &read("/etc/group"))
    }

    /// Gives them to a file that will be at `path` and takes no other file's place.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn give(&self, file: &File, path: &Path) -> Result<(), RunError> {
        if self.owner.is_none() {
            let given = give_to_owner_of_directory(file, path);
            given.map_err(RunError::io("change the owner of", path))?;
        }
        self.give_named(file, path)
    }

    /// Gives those that were named to a file that takes another one's place, and has its owner and
    /// permissions already.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn give_named(&self, file: &File, path: &Path) -> Result<(), RunError> {
        if let Some((user, group)) = self.owner {
            let is_so = |facts: fs::Metadata| (facts.uid(), facts.gid()) == (user, group);
            let given = file.metadata().and_then(|facts| match is_so(facts) {
                true => Ok(()),
                false => fchown(file, Some(user), Some(group)),
            });
            given.map_err(RunError::io("change the owner of", path))?;
        }
        // A change of the owner may clear bits.
        let set = |mode| file.set_permissions(Permissions::from_mode(mode));
        let set: io::Result<()> = self.mode.map_or(Ok(()), set);
        set.map_err(RunError::io("change the permissions of", path))
    }
}

fn owner_of(text: &str, users: &str, groups: &str) -> Result<(u32, u32), String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let entry = |table: &str, name: &str| -> Option<Vec<String>> {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let named = |fields: &Vec<String>| {
            let number = fields.get(2);
            !name.is_empty()
                && (fields.first().is_some_and(|it| it == name)
                    || number.is_some_and(|it| it == name))
        };
        table.lines().map(fields).find(named)
    };
    let number = |entry: &Option<Vec<String>>, at: usize| -> Option<u32> {
        entry.as_ref()?.get(at)?.parse().ok()
    };
    let found = entry(users, user);
    let uid = number(&found, 2).or_else(|| user.parse().ok());
    let uid = uid.ok_or_else(|| format!("there is no user {user:?} in /etc/passwd"))?;
    let gid = match group {
        None => {
            number(&found, 3).ok_or_else(|| format!("user {user} needs a group: {user}:GROUP"))?
        }
        Some(group) => number(&entry(groups, group), 2)
            .or_else(|| group.parse().ok())
            .ok_or_else(|| format!("there is no group {group:?} in /etc/group"))?,
    };
    // To the system this number means that the owner or the group stays as it is.
    match uid == u32::MAX || gid == u32::MAX {
        true => Err(format!("{} is not the number of a user or a group", u32::MAX)),
        false => Ok((uid, gid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\nbroken\n";
        let groups = "root:x:0:\nstaff:x:50:ann\n";
        let of = |text| owner_of(text, users, groups);
        for (text, owner) in [
            ("ann", (1000, 100)),
            ("1000", (1000, 100)),
            ("ann:staff", (1000, 50)),
            ("ann:77", (1000, 77)),
            ("4711:staff", (4711, 50)),
            ("root", (0, 0)),
        ] {
            assert_eq!(of(text), Ok(owner), "{text}");
        }
        let numbers = ["-1:0", "4294967296:0", "4294967295:0", "ann:4294967295"];
        for wrong in ["", ":", "bob", "4711", "ann:", "ann:none", ":staff"].iter().chain(&numbers) {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
