//! Errors of statements that the server around T-SQL executes: databases, keys, certificates,
//! backups.

use super::{Error, raise, table};

table! {
    /// An error of a host.
    ServerError;
    Restoring { name: String } = 927, 14, 2, Statement,
        "Database '{name}' cannot be opened. It is in the middle of a restore.";
    /// `detail` is a sentence of ours.
    NotAccessible { name: String, detail: String } = 945, 14, 2, Statement,
        "Database '{name}' cannot be opened due to inaccessible files or insufficient memory or \
        disk space. {detail}";
    NotALanguage { name: String } = 2740, 16, 1, Statement,
        "SET LANGUAGE failed because '{name}' is not an official language name or a language alias \
        on this SQL Server.";
    Terminating { spid: u16, number: i32, class: u8 } = 2745, 16, 2, Statement,
        "Process ID {spid} has raised user error {number}, severity {class}. SQL Server is \
        terminating this process.";
    Replaced { name: String } = 952, 16, 1, Statement,
        "Database '{name}' is in transition. Try the statement later.";
    NotCreated { name: String, detail: String } = 1802, 16, 1, Statement,
        "CREATE DATABASE failed. {name} was not created: {detail}";
    LogicalNameTaken { name: String } = 1828, 16, 3, Statement,
        "The logical file name \"{name}\" is already in use. Choose a different name.";
    NoBase { name: String } = 3035, 16, 1, Statement,
        "Cannot perform a differential backup for database \"{name}\", because a current \
        database backup does not exist. Perform a full database backup by reissuing BACKUP \
        DATABASE, omitting the WITH DIFFERENTIAL option.";
    OptionConflict { option: &'static str, with: &'static str } = 3031, 16, 1, Statement,
        "Option '{option}' conflicts with option(s) '{with}'. Remove the conflicting option and \
        reissue the statement.";
    PlainMedia {} = 3095, 16, 1, Statement,
        "The backup cannot be performed because 'ENCRYPTION' was requested after the media was \
        formatted with an incompatible structure. To append to this media set, either omit \
        'ENCRYPTION' or create a new media set by using WITH FORMAT in your BACKUP statement. If \
        you use WITH FORMAT on an existing media set, all its backup sets will be overwritten.";
    EncryptedMedia {} = 3095, 16, 1, Statement,
        "The backup cannot be performed because 'ENCRYPTION' was omitted and the media holds \
        encrypted backup sets. Name 'ENCRYPTION', or create a new media set by using WITH FORMAT \
        in your BACKUP statement.";
    Exclusive {} = 3101, 16, 1, Statement,
        "Exclusive access could not be obtained because the database is in use.";
    RestoreOfCurrent { name: String } = 3102, 16, 1, Statement,
        "RESTORE cannot process database '{name}' because it is in use by this session. It is \
        recommended that the master database be used when performing this operation.";
    NotRestoring {} = 3117, 16, 1, Statement,
        "The log or differential backup cannot be restored because no files are ready to \
        rollforward.";
    NothingToRestoreOn { name: String } = 3118, 16, 1, Statement,
        "The database \"{name}\" does not exist. RESTORE can only create a database when restoring \
        either a full backup or a file backup of the primary file.";
    OtherDevices { reason: String } = 3132, 16, 1, Statement,
        "The media set does not fit the devices that are specified: {reason}.";
    MissingFamily { family: u16, families: u16 } = 3132, 16, 1, Statement,
        "The media set has {families} media families but only some are provided: family {family} \
        is missing. All members must be provided.";
    NotForRestore { file: String, verb: &'static str } = 3135, 16, 1, Statement,
        "The backup set in file '{file}' was created by {verb} and cannot be used for this restore \
        operation.";
    /// The second sentence is ours.
    NoBaseToRestore {} = 3136, 16, 1, Statement,
        "This differential backup cannot be restored because the database has not been restored \
        to the correct earlier state. Its full backup is not in this media set, and not where the \
        backup history knows it.";
    IsRecovered {} = 3153, 16, 1, Statement, "The database is already fully recovered.";
    OtherDatabase { name: String } = 3154, 16, 1, Statement,
        "The backup set holds a backup of a database other than the existing '{name}' database.";
    NotReplaced { name: String } = 3159, 16, 1, Statement,
        "The tail of the log for the database \"{name}\" has not been backed up. Use BACKUP LOG \
        WITH NORECOVERY to backup the log if it contains work you do not want to lose. Use the \
        WITH REPLACE or WITH STOPAT clause of the RESTORE statement to just overwrite the \
        contents of the log.";
    DamagedSet { damage: String } = 3189, 16, 1, Statement,
        "Damage to the backup set was detected. {damage}";
    /// `code` and `words` are those of Windows, as SQL Server shows them on Linux too.
    Device { path: String, code: i32, words: String } = 3201, 16, 1, Statement,
        "Cannot open backup device '{path}'. Operating system error {code}({words}).";
    Unreadable { media: String, what: String, reason: String } = 3203, 16, 1, Statement,
        "Read on \"{media}\" failed: {what}: {reason}";
    Forged { detail: String } = 3203, 16, 1, Statement, "{detail}";
    Aborted {} = 3204, 16, 1, Statement, "The backup or restore was aborted.";
    NoLogicalFile { logical: String, name: String } = 3234, 16, 2, Statement,
        "Logical file '{logical}' is not part of database '{name}'. Use RESTORE FILELISTONLY to \
        list the logical file names.";
    NoMedia { device: String } = 3241, 16, 1, Statement,
        "The media family on device '{device}' is incorrectly formed. SQL Server cannot process \
        this media family.";
    UnsoundMedia { device: String, finding: String } = 3241, 16, 1, Statement,
        "The media family on device '{device}' is incorrectly formed. SQL Server cannot process \
        this media family. {finding}";
    NotDetached { name: String } = 3703, 16, 2, Statement,
        "Cannot detach the database '{name}' because it is currently in use.";
    SystemDatabase { name: String } = 3708, 16, 1, Statement,
        "Cannot drop the database '{name}' because it is a system database.";
    NoSet { position: u32 } = 4038, 16, 1, Statement,
        "Cannot find file ID {position} on device.";
    NoSetOn { position: String, device: String } = 4038, 16, 1, Statement,
        "Cannot find file ID {position} on device '{device}'.";
    SimpleRecovery {} = 4208, 16, 1, Statement,
        "The statement BACKUP LOG is not allowed while the recovery model is SIMPLE. Use BACKUP \
        DATABASE or change the recovery model using ALTER DATABASE.";
    LogOfMaster {} = 4212, 16, 1, Statement,
        "Cannot back up the log of the master database. Use BACKUP DATABASE instead.";
    NoLogBase {} = 4214, 16, 1, Statement,
        "BACKUP LOG cannot be performed because there is no current database backup.";
    LogTooRecent { first: u64, at: u64 } = 4305, 16, 1, Statement,
        "The log in this backup set begins at LSN {first}, which is too recent to apply to the \
        database. An earlier log backup that includes LSN {at} can be restored.";
    /// The number where the log begins is in the set before, which is not there.
    LogMissing { at: u64 } = 4305, 16, 1, Statement,
        "The log in this backup set begins at a backup set that the database was not restored \
        from, and is too recent to apply to the database. An earlier log backup that includes LSN \
        {at} can be restored.";
    RestoreInterrupted { name: String } = 4319, 16, 1, Statement,
        "A previous restore operation was interrupted and did not complete processing on file \
        '{name}'. Either restore the backup set that was interrupted or restart the restore \
        sequence.";
    LogTooEarly { last: u64, at: u64 } = 4326, 16, 1, Statement,
        "The log in this backup set terminates at LSN {last}, which is too early to apply to the \
        database. A more recent log backup that includes LSN {at} can be restored.";
    OtherPath {} = 4330, 16, 1, Statement,
        "This backup set cannot be applied because it is on a recovery path that is inconsistent \
        with the database: it does not stand on the full backup that the database was restored \
        from.";
    RolledBeyond {} = 4335, 16, 1, Statement,
        "The specified STOPAT time is too early. All or part of the database is already rolled \
        forward beyond that point.";
    StopTooEarly {} = 4338, 16, 1, Statement,
        "The STOPAT clause specifies a point too early to allow this backup set to be restored. \
        Choose a different stop point or use RESTORE DATABASE WITH RECOVERY to recover at the \
        current point.";
    /// SQL Server has this number for log backups with bulk-logged changes.
    OnePoint { from: String, at: String } = 4341, 16, 1, Statement,
        "This log backup holds the database as it was at {at} (UTC), and no point between {from} \
        and then. It cannot be used to stop at an arbitrary point in time: stop before it or \
        behind it.";
    NoFileToModify { name: String } = 5041, 16, 1, Statement,
        "MODIFY FILE failed. File '{name}' does not exist.";
    OptionOfSystem { option: &'static str, name: String } = 5058, 16, 1, Statement,
        "Option '{option}' cannot be set in database '{name}'.";
    NotLocked { name: String } = 5061, 16, 1, Statement,
        "ALTER DATABASE failed because a lock could not be placed on database '{name}'. Try again \
        later.";
    FileNotOpened { file: String, code: i32, words: String } = 5120, 16, 101, Statement,
        "Unable to open the physical file \"{file}\". Operating system error {code}: \
        \"{code}({words})\".";
    FileNotMade { file: String, code: i32, words: String } = 5123, 16, 1, Statement,
        "CREATE FILE encountered operating system error {code}({words}) while attempting to open \
        or create the physical file '{file}'.";
    NoDirectory { file: String, code: i32, words: String } = 5133, 16, 1, Statement,
        "Directory lookup for the file \"{file}\" failed with the operating system error \
        {code}({words}).";
    FileExists { file: String } = 5170, 16, 1, Statement,
        "Cannot create file '{file}' because it already exists. Change the file path or the file \
        name, and retry the operation.";
    NotPrimary { file: String } = 5171, 16, 1, Statement,
        "{file} is not a primary database file.";
    NoCertificate { verb: &'static str, name: String } = 15151, 16, 1, Statement,
        "Cannot {verb} the certificate '{name}', because it does not exist or you do not have \
        permission.";
    NoMasterKeyToDrop {} = 15151, 16, 1, Statement,
        "Cannot drop the symmetric key '##MS_DatabaseMasterKey##', because it does not exist or \
        you do not have permission.";
    /// `reason` is empty, or a sentence of ours behind a space; so it is below.
    BadFile { reason: String } = 15208, 16, 1, Statement,
        "The certificate, asymmetric key, or private key file is not valid or does not exist; or \
        you do not have permissions for it.{reason}";
    CertificateExists { name: String } = 15232, 16, 1, Statement,
        "A certificate with name '{name}' already exists or this certificate already has been \
        added to the database.";
    BadCombination { detail: &'static str } = 15233, 16, 1, Statement,
        "Invalid parameter combination: {detail}";
    NotWritten { file: String, reason: String } = 15240, 16, 1, Statement,
        "Cannot write into file '{file}'. Verify that you have write permissions, that the file \
        path is valid, and that the file does not already exist.{reason}";
    BadCertificate {} = 15297, 16, 1, Statement,
        "The certificate, asymmetric key, or private key data is invalid.";
    WrongDecryptor {} = 15313, 16, 1, Statement,
        "The key is not encrypted using the specified decryptor.";
    MasterKeyClosed {} = 15315, 16, 1, Statement,
        "The key 'master key' is not open. Please open the key before using it.";
    CertificateInUse {} = 15352, 16, 1, Statement,
        "The certificate cannot be dropped because one or more entities are either signed or \
        encrypted using it.";
    CertificateNotBackedUp { name: String } = 15352, 16, 1, Statement,
        "The certificate '{name}' cannot be dropped because it is in no backup, and files that \
        this server does not know of may be encrypted using it. BACKUP CERTIFICATE WITH PRIVATE \
        KEY first.";
    WrongKeyPassword {} = 15465, 16, 1, Statement, "The private key password is invalid.";
    MasterKeyExists {} = 15578, 16, 1, Statement,
        "There is already a master key in the database. Please drop it before performing this \
        statement.";
    MasterKeyNeeded { name: String } = 15580, 16, 1, Statement,
        "Cannot drop master key because certificate '{name}' is encrypted by it.";
    NoMasterKey {} = 15581, 16, 1, Statement,
        "Please create a master key in the database or open the master key in the session before \
        performing this operation.";
    /// A value of the registry that is not written.
    Registry { code: i32, words: String } = 22001, 16, 1, Statement,
        "xp_instance_regwrite() returned error {code}, '{words}'";
    NoPrivateKey { name: String } = 33101, 16, 1, Statement,
        "Cannot use certificate '{name}', because its private key is not present or it is not \
        protected by the database master key. SQL Server requires the ability to automatically \
        access the private key of the certificate used for this operation.";
    SystemNotEncrypted {} = 33102, 16, 1, Statement,
        "Cannot encrypt a system database. Database encryption operations cannot be performed for \
        'master', 'model', 'tempdb', 'msdb', or 'resource' databases.";
    KeyExists {} = 33103, 16, 1, Statement,
        "A database encryption key already exists for this database.";
    NoKey {} = 33104, 16, 1, Statement,
        "A database encryption key does not exist for this database.";
    KeyInUse {} = 33105, 16, 1, Statement,
        "Cannot drop the database encryption key because it is currently in use. Database \
        encryption needs to be turned off to be able to drop the database encryption key.";
    NoKeySet {} = 33106, 16, 1, Statement,
        "Cannot change database encryption state because no database encryption key is set.";
    IsEncrypted {} = 33107, 16, 1, Statement,
        "Cannot enable database encryption because it is already enabled.";
    IsPlain {} = 33108, 16, 1, Statement,
        "Cannot disable database encryption because it is already disabled.";
    ScanInProgress {} = 33109, 16, 1, Statement,
        "Cannot disable database encryption while an encryption, decryption, or key change scan is \
        in progress.";
    KeyIsChanging {} = 33110, 16, 1, Statement,
        "Cannot change database encryption key while an encryption, decryption, or key change scan \
        is in progress.";
    NoThumbprint { thumbprint: String } = 33111, 16, 1, Statement,
        "Cannot find server certificate with thumbprint '{thumbprint}'.";
    KeyNotLocked { name: String } = 33116, 16, 1, Statement,
        "CREATE/ALTER/DROP DATABASE ENCRYPTION KEY failed because a lock could not be placed on \
        database '{name}'. Try again later.";
    /// An error for which SQL Server has no number.
    Own { text: String } = 50000, 16, 1, Statement, "{text}";
}

impl From<ServerError> for Error {
    /// The interpreter adds the line.
    fn from(error: ServerError) -> Self {
        raise(error.code(), &error)
    }
}
