//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod alter;
mod apply;
mod batches;
mod bulk;
mod catalog;
mod computed;
mod constraints;
mod counters;
mod coverage;
mod documents;
mod done;
mod foreign_schema;
mod functions;
mod insert_exec;
mod json;
mod limits;
mod locks;
mod merge;
mod permission_limits;
mod permissions;
mod properties;
mod random;
mod results;
mod schemas;
mod semantics;
mod sequences;
mod smoke;
mod split;
mod table_parameters;
mod tools;
mod trust;
mod types;
mod user_types;
