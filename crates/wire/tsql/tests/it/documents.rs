//! The scripts of the documents, as written.

use crate::common::{Log, Server, rows, run};

/// Returns the statement that generates the backups, which the document then executes.
fn generate() -> &'static str {
    include_str!("../scripts/b-backups.sql").split("--EXEC").next().unwrap()
}

#[test]
fn document_b_generates_and_runs_40_backups() {
    let server = Server::new();
    let mut session = server.session();
    let text = rows(&mut *session, include_str!("../scripts/b-backups.sql"));
    assert_eq!(text.matches("BACKUP DATABASE").count(), 40, "{text}");
    let first = "test01-NO_ENCRYPTION-HDD-to-HDD-COMPRESSION";
    assert!(text.contains(&format!(
        "D:\\backup\\{first}.bak'\n WITH INIT, COMPRESSION,\n NAME = '{first}';"
    )));
    let lines = run(&mut *session, &format!("{}\nEXEC sp_executesql @sql;", generate()));
    assert!(!lines.iter().any(|line| line.contains("15/") || line.contains("16/")), "{lines:?}");
    let verbs = server.host.verbs.lock().unwrap();
    assert_eq!(verbs.len(), 40);
    assert!(verbs[39].contains("TRIPLE_DES_3KEY") && verbs[39].contains("TestCert"));
}

#[test]
fn document_b_history() {
    let server = Server::new();
    let mut session = server.session();
    let found = rows(&mut *session, include_str!("../scripts/b-history.sql"));
    let zeros = "0".repeat(12);
    let expected = format!(
        "'test00' | 3.{zeros} | 1.{zeros} | 1.0 | 2.0 | 1.500000\n\
         'test01' | 3.{zeros} | 1.{zeros} | 3.0 | 3.0 | 3.000000"
    );
    assert_eq!(found, expected);
}

#[test]
fn document_b_keys_and_certificates() {
    let server = Server::new();
    let mut session = server.session();
    for batch in [
        "USE [master];",
        "EXEC xp_instance_regwrite N'HKEY_LOCAL_MACHINE', 
  N'Software\\Microsoft\\MSSQLServer\\MSSQLServer', 
  N'DefaultLog', REG_SZ, N'D:\\CTP2_Data';",
        "ALTER DATABASE awHDD SET RECOVERY FULL;
ALTER DATABASE awHDD MODIFY FILE (NAME = N'AdventureWorks2012_Data', FILEGROWTH = 512000KB);",
        "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'p@ssw0rd';",
        "OPEN MASTER KEY DECRYPTION BY PASSWORD = 'p@ssw0rd';",
        "CREATE CERTIFICATE TestCert WITH SUBJECT = 'EncryptionTesting';",
        "BACKUP CERTIFICATE TestCert 
  TO FILE = 'C:\\temp\\TestCert.cert' 
  WITH PRIVATE KEY 
  (
    FILE = 'C:\\temp\\TestCert.key', 
    ENCRYPTION BY PASSWORD = 'p@ssw0rd'
  );",
        "BACKUP MASTER KEY TO FILE = 'C:\\temp\\MasterKey.key' 
  ENCRYPTION BY PASSWORD = 'p@ssw0rd';",
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER CERTIFICATE \
         TestCert; ALTER DATABASE app SET ENCRYPTION ON; ALTER DATABASE app SET ENCRYPTION \
         SUSPEND; ALTER DATABASE app SET ENCRYPTION RESUME; ALTER DATABASE app SET ENCRYPTION OFF",
        "DECLARE @p nvarchar(100) = N'x.bak'; BACKUP DATABASE app TO DISK = @p WITH FORMAT,
         STATS = 10,
         COPY_ONLY, CHECKSUM, DESCRIPTION = 'd'; RESTORE VERIFYONLY FROM DISK = @p;
         RESTORE DATABASE app FROM DISK = @p WITH FILE = 1, REPLACE, MOVE 'a' TO 'b'",
        "DBCC DROPCLEANBUFFERS; DBCC FREESYSTEMCACHE ('ALL')",
    ] {
        let lines = run(&mut *session, batch);
        let failed = lines.iter().any(|line| line.contains("/15/") || line.contains("/16/"));
        assert!(!failed, "{batch}: {lines:?}");
    }
    assert_eq!(rows(&mut *session, "RESTORE HEADERONLY FROM DISK = 'x.bak'"), "1");
    let verbs = server.host.verbs.lock().unwrap();
    assert_eq!(verbs.len(), 18, "{verbs:#?}");
    assert_eq!(verbs[0], "Log is D:\\CTP2_Data");
    drop(verbs);
    let failed = rows(&mut *session, "BACKUP DATABASE missing TO DISK = 'x'");
    assert!(
        failed.starts_with("! 911/") && failed.contains("\n! 3013/16/1 line 1: BACKUP DATABASE")
    );
    let log = rows(&mut *session, "BACKUP LOG missing TO DISK = 'x'");
    assert!(log.contains("\n! 3013/16/1 line 1: BACKUP LOG"), "{log}");
}

#[test]
fn document_d_loop_with_its_measurements() {
    let server = Server::new();
    let mut session = server.session();
    let script = include_str!("../scripts/d-messages.sql").replace("100000000", "1000");
    let mut log = Log { quiet: true, ..Log::default() };
    session.batch(&script, &mut log);
    let kept: Vec<&String> = log.lines.iter().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(kept[0], "51");
    assert!(kept[1].starts_with("! 2528/0/1 line 1: DBCC execution completed."));
    assert!(kept[2].starts_with("'Microsoft SQL Server 2019"));
    assert_eq!(kept[3..], ["'TRUE'", "0", "0", "'PREEMPTIVE_OS_ENCRYPTMESSAGE' | 0 | 0"]);
    assert_eq!(log.dones, 1000 + 11);
}

#[test]
fn document_d_sampling_ends() {
    let server = Server::new();
    let mut session = server.session();
    let script = "declare @i int = 1, @samples int = 2 ;

begin
  while ( @i <= @samples ) 
  begin
    select session_id from sys.dm_exec_sessions r 
	  where session_id = @@spid
	waitfor delay '00:00:00.01'
	set @i = @i + 1
  end
end ;";
    assert_eq!(rows(&mut *session, script), "51\n51");
}

#[test]
fn document_e_procedures() {
    let server = Server::new();
    let mut session = server.session();
    let setup = [
        "CREATE TABLE Vendor (VendorID int IDENTITY(1,1) NOT NULL PRIMARY KEY CLUSTERED,
         BusinessName varchar(40) NOT NULL, Address1 varchar(40) NULL, DateCreated datetime NOT NULL
         DEFAULT GETDATE(), StatusCode char(1) NOT NULL DEFAULT 'A');
         CREATE INDEX Vendor_Name ON Vendor (BusinessName);
         CREATE TABLE Card (CardID int IDENTITY(1,1) NOT NULL PRIMARY KEY,
         CardNumber bigint NOT NULL,
         SecurityCode smallint NOT NULL, SecureString varchar(36) NOT NULL);
         CREATE UNIQUE INDEX Card_Number ON Card (CardNumber, SecurityCode);
         CREATE TABLE Purchase (PurchaseID int IDENTITY(1,1) NOT NULL PRIMARY KEY,
         CardID int NOT NULL
         REFERENCES Card (CardID), VendorID int NOT NULL REFERENCES Vendor (VendorID),
         Amount money NOT NULL, DateCreated datetime NOT NULL DEFAULT GETDATE());
         CREATE TABLE Control (MaxLoops int NOT NULL, Reads int NOT NULL);
         INSERT Control VALUES (10, 4)",
        "CREATE PROCEDURE CardSelect @CardID int, @SecureString varchar(36) OUTPUT AS
         SET NOCOUNT ON;
         SELECT @SecureString = SecureString FROM Card WHERE CardID = @CardID;
         IF @@ROWCOUNT = 0 RETURN 1;
         RETURN 0;",
        "CREATE PROC VendorUpdate (@VendorID int, @Name varchar(40) = 'none') AS
         BEGIN
           SET NOCOUNT ON
           BEGIN TRY
             BEGIN TRANSACTION
             UPDATE Vendor SET BusinessName = @Name WHERE VendorID = @VendorID
             COMMIT TRANSACTION
           END TRY
           BEGIN CATCH
             IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION
             DECLARE @m nvarchar(2048) = ERROR_MESSAGE()
             RAISERROR(@m, 16, 1)
             RETURN -1
           END CATCH
         END",
        "CREATE PROCEDURE PurchaseInsert @CardID int, @VendorID int, @Amount money,
         @PurchaseID int OUTPUT AS
         SET NOCOUNT ON
         INSERT INTO Purchase (CardID, VendorID, Amount) VALUES (@CardID, @VendorID, @Amount)
         SET @PurchaseID = SCOPE_IDENTITY()",
    ];
    for batch in setup {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    let found = rows(
        &mut *session,
        "SET NOCOUNT ON
         INSERT Vendor (BusinessName) VALUES ('first'); INSERT Card VALUES (4000, 12, 'secret')
         DECLARE @r int, @s varchar(36), @p int, @loop int = 1
         WHILE @loop <= 3
         BEGIN
           EXEC PurchaseInsert 1, 1, $10.5, @p OUTPUT
           SET @loop += 1
         END
         EXEC @r = CardSelect @CardID = 1, @SecureString = @s OUTPUT
         EXEC VendorUpdate 1, 'second'
         SELECT @r, @s, @p, (SELECT BusinessName FROM Vendor), (SELECT SUM(Amount) FROM Purchase)",
    );
    let last = found.lines().last().unwrap();
    assert_eq!(last, "0 | 'secret' | 3 | 'second' | $315000", "{found}");
    let conflict = rows(&mut *session, "DECLARE @p int; EXEC PurchaseInsert 9, 9, 1, @p OUTPUT");
    assert!(conflict.starts_with("! 547/16/0"), "{conflict}");
    let long = rows(&mut *session, "EXEC VendorUpdate 1, NULL; SELECT @@TRANCOUNT");
    assert!(long.contains("! 50000/16/1") && long.ends_with("\n0"), "{long}");
}
