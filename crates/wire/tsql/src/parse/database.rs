//! CREATE DATABASE, and files of databases.

use super::Parser;
use crate::ast::{Action, Kind};
use crate::error::{Error, Result};
use crate::host::{AlterDatabase, CreateDatabase, DatabaseFile, ModifyFile};
use crate::lex::Tok;

impl Parser<'_> {
    /// The rest of CREATE DATABASE.
    pub(crate) fn create_database(&mut self) -> Result<Kind> {
        let mut made = CreateDatabase { name: self.identifier()?, ..Default::default() };
        if self.eat("CONTAINMENT") {
            self.expect_op("=")?;
            self.expect("NONE")?;
        }
        if self.is("AS") {
            return Err(Error::unsupported("CREATE DATABASE AS SNAPSHOT"));
        }
        if self.eat("ON") {
            self.eat("PRIMARY");
            made.files = self.commas(Self::database_file)?;
        }
        if self.eat_words(&["LOG", "ON"]) {
            made.logs = self.commas(Self::database_file)?;
        }
        if self.eat("COLLATE") {
            let name = self.identifier()?;
            if crate::value::collation::named(&name)? != tdekit_wire_tds::Collation::default() {
                return Err(Error::feature(format!("collation {name} of a database")));
            }
        }
        if self.eat("FOR") {
            if !self.eat("ATTACH") && !self.eat("ATTACH_REBUILD_LOG") {
                return Err(self.unexpected());
            }
            made.attach = true;
        }
        // A file is attached, and a log is that of a file.
        let needs_file = made.attach || !made.logs.is_empty();
        match needs_file && made.files.is_empty() {
            true => Err(self.unexpected()),
            false => Ok(Kind::Act(Action::CreateDatabase(Box::new(made)))),
        }
    }

    /// `( NAME = .., FILENAME = '..', SIZE = .., MAXSIZE = .., FILEGROWTH = .. )`.
    fn database_file(&mut self) -> Result<DatabaseFile> {
        if self.is("FILEGROUP") {
            return Err(Error::unsupported("CREATE DATABASE with filegroups"));
        }
        let FileOptions { name, new_name, file, .. } = self.file_options()?;
        if new_name.is_some() {
            return Err(Error::Syntax { near: "NEWNAME".to_owned() });
        }
        match file {
            Some(file) => Ok(DatabaseFile { name, file }),
            None => Err(self.unexpected()),
        }
    }

    /// The rest of ALTER DATABASE .. MODIFY FILE.
    pub(crate) fn modify_file(&mut self) -> Result<AlterDatabase> {
        let FileOptions { name, new_name, file, sizes } = self.file_options()?;
        match name {
            Some(name) => Ok(AlterDatabase::ModifyFile(ModifyFile { name, new_name, file, sizes })),
            None => Err(self.unexpected()),
        }
    }

    fn file_options(&mut self) -> Result<FileOptions> {
        let mut given = FileOptions::default();
        let mut seen = Vec::new();
        self.list(|parser| {
            let option = parser.word()?;
            if seen.contains(&option) {
                return Err(Error::Syntax { near: option });
            }
            if option == "OFFLINE" {
                return Err(Error::feature("MODIFY FILE OFFLINE"));
            }
            parser.expect_op("=")?;
            match option.as_str() {
                "NAME" => given.name = Some(parser.logical_name()?),
                "NEWNAME" => given.new_name = Some(parser.logical_name()?),
                "FILENAME" => given.file = Some(parser.string()?),
                "SIZE" | "MAXSIZE" | "FILEGROWTH" => {
                    parser.file_size(&option)?;
                    given.sizes = true;
                }
                _ => return Err(Error::Syntax { near: option }),
            }
            seen.push(option);
            Ok(())
        })?;
        Ok(given)
    }

    fn logical_name(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Str(..) => self.string(),
            _ => self.identifier(),
        }
    }

    /// A number with a unit, or UNLIMITED.
    fn file_size(&mut self, option: &str) -> Result<()> {
        if option == "MAXSIZE" && self.eat("UNLIMITED") {
            return Ok(());
        }
        let size = self.integer()?;
        if size < 0 {
            return Err(Error::Syntax { near: size.to_string() });
        }
        let unit = ["KB", "MB", "GB", "TB"].into_iter().any(|unit| self.eat(unit));
        if !unit && option == "FILEGROWTH" {
            self.eat_op("%");
        }
        Ok(())
    }
}

/// Options of a file.
#[derive(Default)]
struct FileOptions {
    name: Option<String>,
    new_name: Option<String>,
    file: Option<String>,
    /// True if there is a size or a growth.
    sizes: bool,
}
