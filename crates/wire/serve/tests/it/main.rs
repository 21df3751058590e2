//! Tests of the endpoint as users start it, and of the bench's use of it.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../../../command/tests/it/common/mod.rs"]
mod common;
#[path = "../../../../command/tests/it/media/mod.rs"]
mod media;
mod served;

mod bench_messages;
mod bench_mssql;
mod bench_script;
mod serve;
mod serve_attach;
mod serve_audit;
mod serve_backup_history;
mod serve_bases;
mod serve_command;
mod serve_crash;
mod serve_crowd;
mod serve_damage;
mod serve_documents;
mod serve_drives;
mod serve_exclusive;
mod serve_files;
mod serve_log_backups;
mod serve_log_files;
mod serve_memory;
mod serve_permissions;
mod serve_recovery_path;
mod serve_restoring;
mod serve_rotate;
mod serve_stop_at;
