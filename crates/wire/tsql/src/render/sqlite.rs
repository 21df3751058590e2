//! The functions and the collation that a connection needs before it runs rendered text.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ToSqlOutput;
use tdekit_wire_tds::{SqlType, Value};

use super::aggregates::{Objects, Single, Spread, Sum};
use super::nested;
use super::rows::RowArray;
use crate::error::{Error, Result};
use crate::functions::eval::{Env, Reads, SessionCalls, eval};
use crate::render::kernels::{Kernel, Kernels};
use crate::value::{collation, storage, text};

/// Sums by their names in SQLite: the suffix names the type.
pub(crate) const SUMS: &[(&str, SqlType)] = &[
    ("tsql_sum_int", SqlType::Int),
    ("tsql_sum_bigint", SqlType::BigInt),
    ("tsql_sum_money", SqlType::Money),
    ("tsql_sum_float", SqlType::Float),
];

/// Spreads by their names: true for the root, true for the population.
pub(crate) const SPREADS: &[(&str, bool, bool)] = &[
    ("tsql_stdev", true, false),
    ("tsql_stdevp", true, true),
    ("tsql_var", false, false),
    ("tsql_varp", false, true),
];

/// Registers with a connection everything that rendered text uses.
///
/// # Errors
/// If SQLite is out of memory.
pub(crate) fn prepare(connection: &Connection, kernels: &Kernels) -> Result<()> {
    register(connection, kernels).map_err(|error| Error::Internal { detail: error.to_string() })
}

fn register(connection: &Connection, kernels: &Kernels) -> rusqlite::Result<()> {
    connection.create_collation(collation::OWN, text::compare)?;
    connection.collation_needed(collation::provide)?;
    let utf8 = FunctionFlags::SQLITE_UTF8;
    let pure = utf8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, flags) in [("tsql_eval", pure), ("tsql_eval_each", utf8)] {
        let kernels = kernels.clone();
        connection.create_scalar_function(name, -1, flags, move |ctx| call(ctx, &kernels))?;
    }
    let counter = kernels.clone();
    connection.create_scalar_function("tsql_identity", 0, utf8, move |_| {
        counter.next_identity().ok_or_else(|| {
            let to = "bigint".to_owned();
            stop(&counter, Error::ResultOverflow { to })
        })
    })?;
    let versions = kernels.clone();
    connection.create_scalar_function("tsql_rowversion", 1, utf8, move |ctx| {
        let schema: String = ctx.get(0)?;
        let next = versions.next_version(&schema).ok_or_else(|| {
            let detail = "a row version outside of a change".to_owned();
            stop(&versions, Error::Internal { detail })
        })?;
        Ok(next.to_be_bytes().to_vec())
    })?;
    let values = kernels.clone();
    connection.create_scalar_function("tsql_next", 3, utf8, move |ctx| {
        let (schema, name): (String, String) = (ctx.get(0)?, ctx.get(1)?);
        let place = usize::try_from(ctx.get::<i64>(2)?).unwrap_or(usize::MAX);
        match values.next_value(&schema, &name, place) {
            Ok(value) => Ok(Some(value)),
            Err(_) if values.is_lenient() => Ok(None),
            Err(error) => Err(stop(&values, error)),
        }
    })?;
    let keys = kernels.clone();
    connection.create_scalar_function("tsql_key", -1, utf8, move |ctx| {
        let values = (0..ctx.len()).map(|at| ctx.get(at));
        keys.set_key(values.collect::<rusqlite::Result<_>>()?);
        Ok(0)
    })?;
    let depth = kernels.clone();
    connection.create_scalar_function("tsql_depth", 2, pure, move |ctx| {
        let (at, most): (i64, i64) = (ctx.get(0)?, ctx.get(1)?);
        if most > 0 && at >= most {
            return Err(stop(&depth, Error::RecursionLimit { most }));
        }
        Ok(at + 1)
    })?;
    for (name, ty) in SUMS {
        let sum = Sum { ty: *ty, kernels: kernels.clone() };
        connection.create_window_function(*name, 1, pure, sum)?;
    }
    for scale in 0..=38_u8 {
        // the argument's storage does not show its scale, so each one has its own name
        let ty = SqlType::Decimal { precision: 38, scale };
        let sum = Sum { ty, kernels: kernels.clone() };
        connection.create_window_function(format!("tsql_sum_dec{scale}").as_str(), 1, pure, sum)?;
    }
    for (name, root, whole) in SPREADS {
        let spread = Spread { root: *root, whole: *whole };
        connection.create_aggregate_function(*name, 1, pure, spread)?;
    }
    connection.create_scalar_function("tsql_real", 1, pure, |ctx| {
        let bits: Option<i64> = ctx.get(0)?;
        Ok(bits.map(|bits| f64::from_bits(bits.cast_unsigned())))
    })?;
    let objects = Objects { kernels: kernels.clone() };
    connection.create_aggregate_function("tsql_json", -1, pure, objects)?;
    let rows = RowArray { kernels: kernels.clone() };
    connection.create_aggregate_function("tsql_rows", -1, pure, rows)?;
    let single = Single { kernels: kernels.clone() };
    connection.create_aggregate_function("tsql_single", 1, pure, single)
}

fn stop(kernels: &Kernels, error: Error) -> rusqlite::Error {
    let text = error.to_string();
    kernels.fail(error);
    rusqlite::Error::UserFunctionError(text.into())
}

fn call(ctx: &Context<'_>, kernels: &Kernels) -> rusqlite::Result<ToSqlOutput<'static>> {
    let kernel = ctx.get_or_create_aux(0, |id| {
        let id = id.as_i64().unwrap_or(0);
        kernels.find(id).ok_or_else(|| {
            let detail = "tsql_eval is called from outside of a statement".to_owned();
            stop(kernels, Error::Internal { detail })
        })
    })?;
    run(ctx, &kernel, kernels).or_else(|error| match kernels.is_lenient() {
        true => Ok(ToSqlOutput::Owned(rusqlite::types::Value::Null)),
        false => Err(stop(kernels, error)),
    })
}

fn run(ctx: &Context<'_>, kernel: &Kernel, kernels: &Kernels) -> Result<ToSqlOutput<'static>> {
    let mut args: Vec<Value<'_>> = Vec::with_capacity(kernel.args.len());
    for (index, ty) in kernel.args.iter().enumerate() {
        args.push(storage::load(ctx.get_raw(index + 1), *ty, "expression")?);
    }
    let snapshot = if kernel.looks_up { kernels.snapshot() } else { None };
    let session = snapshot.as_deref().map(|snapshot| snapshot as &dyn SessionCalls);
    let (order, datefirst) = kernels.formats();
    let cancel = kernel.invokes.then(|| kernels.cancel());
    let nest = if kernel.invokes { nested::lent() } else { None };
    let env = Env {
        vars: &[],
        args: &args,
        given: nest.as_ref().map_or(&[], |nest| &nest.given),
        session,
        reads: nest.as_ref().map(|nest| nest as &dyn Reads),
        host: kernels.host(),
        order,
        datefirst,
        cancel: cancel.as_deref(),
        depth: nest.as_ref().map_or((0, 0), |nest| nest.depth),
    };
    let value = eval(&kernel.expr, &env)?;
    storage::output(&value, kernel.expr.ty)
}
