//! The commands, one file per plane.

#[cfg(not(all(feature = "manual", feature = "mysql")))]
pub(crate) mod absent;
pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod audit_log;
pub(crate) mod backup;
pub(crate) mod backup_key;
pub(crate) mod cert;
#[cfg(feature = "manual")]
pub(crate) mod complete;
pub(crate) mod copy;
pub(crate) mod decrypt;
pub(crate) mod doctor;
pub(crate) mod encrypt;
#[cfg(feature = "manual")]
mod examples;
pub(crate) mod followed;
pub(crate) mod freshness;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod key_provider;
#[cfg(feature = "manual")]
pub(crate) mod manual;
#[cfg(feature = "mariadb")]
pub(crate) mod mariadb;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
pub(crate) mod overview;
pub(crate) mod program;
pub(crate) mod prune;
pub(crate) mod replicate;
pub(crate) mod restore;
pub(crate) mod rewrap;
pub(crate) mod rotate;
pub(crate) mod shell_init;
pub(crate) mod sqlite;
pub(crate) mod status;
pub(crate) mod verify;
