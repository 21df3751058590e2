//! The product name and version reported to clients; drivers choose their statements by them.

/// The name in LOGINACK.
pub const NAME: &str = "Microsoft SQL Server";
/// Major version, minor version: those of SQL Server 2019.
pub const MAJOR: u8 = 15;
/// The minor version.
pub const MINOR: u8 = 0;
/// The build.
pub const BUILD: u16 = 2000;
/// `SERVERPROPERTY('ProductVersion')`.
pub const VERSION: &str = "15.0.2000.5";
/// `SERVERPROPERTY('Collation')`.
pub const COLLATION: &str = "SQL_Latin1_General_CP1_CI_AS";
