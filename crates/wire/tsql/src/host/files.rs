//! Statements on the files of databases, and the directories in which a server makes files.

/// `(NAME = .., FILENAME = .., ..)` of `CREATE DATABASE`. Sizes and growth are read and mean
/// nothing: files grow as they need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseFile {
    /// The logical name.
    pub name: Option<String>,
    /// `FILENAME`.
    pub file: String,
}

/// `CREATE DATABASE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateDatabase {
    /// The database.
    pub name: String,
    /// `ON`.
    pub files: Vec<DatabaseFile>,
    /// `LOG ON`.
    pub logs: Vec<DatabaseFile>,
    /// `FOR ATTACH` or `FOR ATTACH_REBUILD_LOG`: the file is there.
    pub attach: bool,
}

/// `ALTER DATABASE .. MODIFY FILE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModifyFile {
    /// `NAME`: the file's logical name.
    pub name: String,
    /// `NEWNAME`.
    pub new_name: Option<String>,
    /// `FILENAME`.
    pub file: Option<String>,
    /// True if there is a size or a growth.
    pub sizes: bool,
}

/// The directories that a server has in its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directory {
    /// `DefaultData`: new databases are made there.
    Data,
    /// `DefaultLog`: the logs of databases.
    Log,
    /// `BackupDirectory`: where a relative path of a backup begins.
    Backup,
}

impl Directory {
    /// Returns the directory whose value has this name, regardless of case.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Data, Self::Log, Self::Backup];
        all.into_iter().find(|directory| directory.name().eq_ignore_ascii_case(name))
    }

    /// Returns the value's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "DefaultData",
            Self::Log => "DefaultLog",
            Self::Backup => "BackupDirectory",
        }
    }
}

/// States of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseState {
    /// It can be used.
    Online,
    /// It is being restored.
    Restoring,
    /// Its file, the note beside it or its key is not there.
    RecoveryPending,
}

impl DatabaseState {
    /// Returns its number in `sys.databases`.
    pub fn number(self) -> i64 {
        match self {
            Self::Online => 0,
            Self::Restoring => 1,
            Self::RecoveryPending => 3,
        }
    }

    /// Returns its name there.
    pub fn name(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Restoring => "RESTORING",
            Self::RecoveryPending => "RECOVERY_PENDING",
        }
    }

    /// Returns true if the database can be used.
    pub fn is_online(self) -> bool {
        self == Self::Online
    }
}
