//! The statements for keys, certificates, encryption, backup and restore.

use super::Parser;
use crate::ast::{Action, Kind, Operand, Security};
use crate::error::{Error, Result};
use crate::host::{
    AlterDatabase, Backup, BackupEncryption, CertificateBackup, CreateCertificate, Device,
    EncryptionKey, Restore, RestoreKind,
};
use crate::lex::Tok;

impl Parser<'_> {
    /// OPEN MASTER KEY and CLOSE MASTER KEY.
    pub(crate) fn master_key(&mut self, verb: &str) -> Result<Kind> {
        self.advance();
        if !self.is_words(&["MASTER", "KEY"]) {
            return Err(Error::unsupported("SYMMETRIC KEY"));
        }
        self.expect_words(&["MASTER", "KEY"])?;
        if verb == "CLOSE" {
            return Ok(Kind::Act(Action::Security(Security::CloseMasterKey)));
        }
        self.expect_words(&["DECRYPTION", "BY", "PASSWORD"])?;
        self.expect_op("=")?;
        Ok(Kind::Act(Action::Security(Security::OpenMasterKey { password: self.string()? })))
    }

    /// The rest of ALTER MASTER KEY.
    pub(crate) fn alter_master_key(&mut self) -> Result<Security> {
        if self.is("ADD") || self.is("DROP") {
            let verb = self.word()?;
            return Err(Error::feature(format!("ALTER MASTER KEY {verb} ENCRYPTION")));
        }
        let force = self.eat("FORCE");
        self.expect_words(&["REGENERATE", "WITH"])?;
        let password = self.password("ENCRYPTION")?.ok_or_else(|| self.unexpected())?;
        Ok(Security::AlterMasterKey { password, force })
    }

    /// `ENCRYPTION BY PASSWORD = '..'` or `DECRYPTION BY PASSWORD = '..'`, if present.
    fn password(&mut self, which: &str) -> Result<Option<String>> {
        if !self.eat_words(&[which, "BY", "PASSWORD"]) {
            return Ok(None);
        }
        self.expect_op("=")?;
        self.string().map(Some)
    }

    pub(crate) fn create_certificate(&mut self) -> Result<Security> {
        let mut made = CreateCertificate { name: self.identifier()?, ..Default::default() };
        if self.is("AUTHORIZATION") {
            return Err(Error::unsupported("AUTHORIZATION"));
        }
        if self.eat("FROM") {
            self.expect("FILE")?;
            self.expect_op("=")?;
            made.file = Some(self.string()?);
            if self.eat("WITH") {
                made.pfx = self.pfx()?;
                let (file, encryption, decryption) = self.private_key()?;
                made.key_file = file;
                made.encryption_password = encryption;
                made.decryption_password = decryption;
            }
            return Ok(Security::CreateCertificate(made));
        }
        made.encryption_password = self.password("ENCRYPTION")?;
        self.expect("WITH")?;
        self.commas(|parser| {
            let option = parser.word()?;
            parser.expect_op("=")?;
            let value = parser.string()?;
            match option.as_str() {
                "SUBJECT" => made.subject = value,
                "START_DATE" => made.start_date = Some(value),
                "EXPIRY_DATE" => made.expiry_date = Some(value),
                _ => return Err(Error::Syntax { near: option }),
            }
            Ok(())
        })?;
        if made.subject.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Security::CreateCertificate(made))
    }

    /// `FORMAT = 'PFX',`, if present.
    fn pfx(&mut self) -> Result<bool> {
        if !self.eat("FORMAT") {
            return Ok(false);
        }
        self.expect_op("=")?;
        let format = self.string()?;
        if !format.eq_ignore_ascii_case("PFX") {
            return Err(Error::Syntax { near: format });
        }
        self.expect_op(",")?;
        Ok(true)
    }

    /// `PRIVATE KEY ( FILE = .., ENCRYPTION BY PASSWORD = .., DECRYPTION BY PASSWORD = .. )`.
    fn private_key(&mut self) -> Result<(Option<String>, Option<String>, Option<String>)> {
        self.expect_words(&["PRIVATE", "KEY"])?;
        let (mut file, mut encryption, mut decryption) = (None, None, None);
        self.list(|parser| {
            if parser.eat("FILE") {
                parser.expect_op("=")?;
                file = Some(parser.string()?);
            } else if parser.is("ENCRYPTION") {
                encryption = parser.password("ENCRYPTION")?;
            } else if parser.is("DECRYPTION") {
                decryption = parser.password("DECRYPTION")?;
            } else {
                return Err(parser.unexpected());
            }
            Ok(())
        })?;
        Ok((file, encryption, decryption))
    }

    pub(crate) fn encryption_key(&mut self) -> Result<Security> {
        self.expect_words(&["DATABASE", "ENCRYPTION", "KEY"])?;
        self.expect_words(&["WITH", "ALGORITHM"])?;
        self.expect_op("=")?;
        let algorithm = Some(self.word()?);
        let certificate = Some(self.server_certificate()?);
        let key = EncryptionKey { algorithm, certificate, regenerate: false };
        Ok(Security::CreateEncryptionKey(key))
    }

    fn server_certificate(&mut self) -> Result<String> {
        self.expect_words(&["ENCRYPTION", "BY", "SERVER"])?;
        if self.is("ASYMMETRIC") {
            return Err(Error::unsupported("SERVER ASYMMETRIC KEY"));
        }
        self.expect("CERTIFICATE")?;
        self.identifier()
    }

    pub(crate) fn alter_database(&mut self) -> Result<Security> {
        self.advance();
        if self.eat_words(&["ENCRYPTION", "KEY"]) {
            let mut key = EncryptionKey::default();
            if self.eat("REGENERATE") {
                key.regenerate = true;
                if self.eat_words(&["WITH", "ALGORITHM"]) {
                    self.expect_op("=")?;
                    key.algorithm = Some(self.word()?);
                }
            } else {
                key.certificate = Some(self.server_certificate()?);
            }
            return Ok(Security::AlterEncryptionKey(key));
        }
        let database = if self.eat("CURRENT") { None } else { Some(self.identifier()?) };
        let change = if self.eat("SET") {
            self.database_option()?
        } else if self.eat_words(&["MODIFY", "FILE"]) {
            self.modify_file()?
        } else {
            let what = self.word()?;
            return Err(Error::unsupported(format!("ALTER DATABASE {what}")));
        };
        Ok(Security::AlterDatabase { database, change })
    }

    fn database_option(&mut self) -> Result<AlterDatabase> {
        let option = self.word()?;
        self.eat_op("=");
        let value = match self.tok() {
            Tok::Int(text) => {
                let text = text.clone();
                self.advance();
                text
            }
            _ if *self.tok() == Tok::End || self.is_op(";") || self.is("WITH") => String::new(),
            _ => self.word()?,
        };
        if self.eat("WITH") {
            self.eat("NO_WAIT");
            if self.eat("ROLLBACK") {
                if self.eat("AFTER") {
                    self.integer()?;
                    self.eat("SECONDS");
                } else {
                    self.expect("IMMEDIATE")?;
                }
            }
        }
        match (option.as_str(), value.as_str()) {
            ("ENCRYPTION", "ON") => Ok(AlterDatabase::EncryptionOn),
            ("ENCRYPTION", "OFF") => Ok(AlterDatabase::EncryptionOff),
            ("ENCRYPTION", "SUSPEND") => Ok(AlterDatabase::EncryptionSuspend),
            ("ENCRYPTION", "RESUME") => Ok(AlterDatabase::EncryptionResume),
            ("ENCRYPTION", _) => Err(Error::Syntax { near: value }),
            ("RECOVERY", "FULL" | "SIMPLE" | "BULK_LOGGED") => Ok(AlterDatabase::Recovery(value)),
            ("RECOVERY", _) => Err(Error::Syntax { near: value }),
            _ => Ok(AlterDatabase::Set(option, value)),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        match self.tok() {
            Tok::Var(_) => self.variable().map(Operand::Var),
            Tok::Str(..) => self.string().map(Operand::Text),
            Tok::Int(_) => self.integer().map(|number| Operand::Text(number.to_string())),
            _ => Err(self.unexpected()),
        }
    }

    fn database_operand(&mut self) -> Result<Operand> {
        match self.tok() {
            Tok::Var(_) => self.variable().map(Operand::Var),
            _ => self.identifier().map(Operand::Text),
        }
    }

    fn device(&mut self) -> Result<Device<Operand>> {
        match self.word()?.as_str() {
            "DISK" => {
                self.expect_op("=")?;
                self.operand().map(Device::Disk)
            }
            "URL" => {
                self.expect_op("=")?;
                self.operand().map(Device::Url)
            }
            other => Err(Error::unsupported(format!("backup device {other}"))),
        }
    }

    pub(crate) fn backup(&mut self) -> Result<Kind> {
        self.advance();
        if self.eat("CERTIFICATE") {
            let name = self.identifier()?;
            let mut backup = CertificateBackup { name, ..Default::default() };
            self.expect_words(&["TO", "FILE"])?;
            self.expect_op("=")?;
            backup.file = self.string()?;
            if self.eat("WITH") {
                backup.pfx = self.pfx()?;
                (backup.key_file, backup.encryption_password, backup.decryption_password) =
                    self.private_key()?;
            }
            return Ok(Kind::Act(Action::Security(Security::BackupCertificate(backup))));
        }
        if self.eat_words(&["MASTER", "KEY"]) {
            self.expect_words(&["TO", "FILE"])?;
            self.expect_op("=")?;
            let file = self.string()?;
            let Some(password) = self.password("ENCRYPTION")? else {
                return Err(self.unexpected());
            };
            return Ok(Kind::Act(Action::Security(Security::BackupMasterKey { file, password })));
        }
        let log = self.is("LOG");
        if !log && !self.is("DATABASE") {
            return Err(Error::feature(format!("BACKUP {}", self.word()?)));
        }
        self.advance();
        let database = self.database_operand()?;
        if self.is("FILE") || self.is("FILEGROUP") || self.is("READ_WRITE_FILEGROUPS") {
            return Err(Error::unsupported(format!("BACKUP DATABASE {}", self.word()?)));
        }
        self.expect("TO")?;
        let devices = self.commas(Self::device)?;
        if self.is("MIRROR") {
            return Err(Error::unsupported("MIRROR TO"));
        }
        let mut backup = Backup {
            database,
            devices,
            init: false,
            format: false,
            compression: None,
            log,
            differential: false,
            copy_only: false,
            checksum: None,
            encryption: None,
            name: None,
            description: None,
            media_name: None,
            media_description: None,
            stats_percent: None,
        };
        if self.eat("WITH") {
            self.commas(|parser| parser.backup_option(&mut backup))?;
        }
        Ok(Kind::Act(Action::Security(Security::Backup(Box::new(backup)))))
    }

    fn backup_option(&mut self, backup: &mut Backup<Operand>) -> Result<()> {
        let option = self.word()?;
        match option.as_str() {
            "INIT" => backup.init = true,
            "NOINIT" => backup.init = false,
            "FORMAT" => backup.format = true,
            "NOFORMAT" => backup.format = false,
            "COMPRESSION" => backup.compression = Some(true),
            "NO_COMPRESSION" => backup.compression = Some(false),
            "DIFFERENTIAL" if !backup.log => backup.differential = true,
            "COPY_ONLY" => backup.copy_only = true,
            "CHECKSUM" => backup.checksum = Some(true),
            "NO_CHECKSUM" => backup.checksum = Some(false),
            // options of tapes, of errors that do not occur, and of a header that is always read
            "SKIP" | "NOSKIP" | "REWIND" | "NOREWIND" | "LOAD" | "UNLOAD" | "NOUNLOAD"
            | "STOP_ON_ERROR" => {}
            "STATS" => backup.stats_percent = Some(self.percent()?),
            "NAME" => backup.name = Some(self.equal_operand()?),
            "DESCRIPTION" => backup.description = Some(self.equal_operand()?),
            "MEDIANAME" => backup.media_name = Some(self.equal_operand()?),
            "MEDIADESCRIPTION" => backup.media_description = Some(self.equal_operand()?),
            "ENCRYPTION" => {
                let (mut algorithm, mut certificate) = (None, None);
                self.list(|parser| {
                    if parser.eat("ALGORITHM") {
                        parser.expect_op("=")?;
                        algorithm = Some(parser.word()?);
                    } else {
                        parser.expect_words(&["SERVER", "CERTIFICATE"])?;
                        parser.expect_op("=")?;
                        certificate = Some(parser.identifier()?);
                    }
                    Ok(())
                })?;
                let (Some(algorithm), Some(certificate)) = (algorithm, certificate) else {
                    return Err(self.unexpected());
                };
                backup.encryption = Some(BackupEncryption { algorithm, certificate });
            }
            _ => return Err(Error::NotARecognizedOption { name: option }),
        }
        Ok(())
    }

    fn percent(&mut self) -> Result<u32> {
        if !self.eat_op("=") {
            return Ok(10);
        }
        let percent = self.integer()?;
        u32::try_from(percent)
            .ok()
            .filter(|percent| (1..=100).contains(percent))
            .ok_or(Error::Syntax { near: percent.to_string() })
    }

    fn equal_operand(&mut self) -> Result<Operand> {
        self.expect_op("=")?;
        self.operand()
    }

    pub(crate) fn restore(&mut self) -> Result<Kind> {
        self.advance();
        let kind = match self.word()?.as_str() {
            "DATABASE" => RestoreKind::Database,
            "LOG" => RestoreKind::Log,
            "HEADERONLY" => RestoreKind::HeaderOnly,
            "VERIFYONLY" => RestoreKind::VerifyOnly,
            "FILELISTONLY" => RestoreKind::FileListOnly,
            "LABELONLY" => RestoreKind::LabelOnly,
            other => return Err(Error::unsupported(format!("RESTORE {other}"))),
        };
        let database = match kind {
            RestoreKind::Database | RestoreKind::Log => Some(self.database_operand()?),
            _ => None,
        };
        // `RESTORE DATABASE d WITH RECOVERY` reads no device.
        let devices = match kind == RestoreKind::Database && !self.is("FROM") {
            true => Vec::new(),
            false => {
                self.expect("FROM")?;
                self.commas(Self::device)?
            }
        };
        let mut restore = Restore {
            kind,
            database,
            devices,
            position: None,
            replace: false,
            recovery: true,
            conflicting: false,
            stop_at: None,
            checksum: None,
            stats_percent: None,
            moves: Vec::new(),
            login: String::new(),
        };
        if self.eat("WITH") {
            let mut recovery = false;
            self.commas(|parser| {
                recovery |= parser.is("RECOVERY");
                parser.restore_option(&mut restore)
            })?;
            restore.conflicting = recovery && !restore.recovery;
        }
        Ok(Kind::Act(Action::Security(Security::Restore(Box::new(restore)))))
    }

    fn restore_option(&mut self, restore: &mut Restore<Operand>) -> Result<()> {
        let option = self.word()?;
        match option.as_str() {
            "REPLACE" => restore.replace = true,
            "RECOVERY" => {}
            "NORECOVERY" => restore.recovery = false,
            "STOPAT" => restore.stop_at = Some(self.equal_operand()?),
            "CHECKSUM" => restore.checksum = Some(true),
            "NO_CHECKSUM" => restore.checksum = Some(false),
            "REWIND" | "NOREWIND" | "UNLOAD" | "NOUNLOAD" | "LOADHISTORY" | "STOP_ON_ERROR" => {}
            "STATS" => restore.stats_percent = Some(self.percent()?),
            "FILE" => restore.position = Some(self.equal_operand()?),
            "MOVE" => {
                let from = self.operand()?;
                self.expect("TO")?;
                restore.moves.push((from, self.operand()?));
            }
            _ => return Err(Error::NotARecognizedOption { name: option }),
        }
        Ok(())
    }
}
