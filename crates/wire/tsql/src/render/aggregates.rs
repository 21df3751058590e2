//! Aggregates that SQLite calls: exact sums, spread, and the check of scalar subqueries.

use rusqlite::functions::{Aggregate, Context, WindowAggregate};
use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use tdekit_wire_tds::{SqlType, Value};

use crate::error::Error;
use crate::render::kernels::Kernels;
use crate::value::{storage, type_name};

/// A sum in the type that its name implies.
pub(crate) struct Sum {
    pub(crate) ty: SqlType,
    pub(crate) kernels: Kernels,
}

/// The running sums.
#[derive(Default)]
pub(crate) struct Total {
    exact: i128,
    float: f64,
    count: u64,
}

type Output = rusqlite::Result<ToSqlOutput<'static>>;

fn failed(kernels: &Kernels, error: Error) -> rusqlite::Error {
    let text = error.to_string();
    kernels.fail(error);
    rusqlite::Error::UserFunctionError(text.into())
}

impl Sum {
    fn overflow(&self) -> rusqlite::Error {
        let to = type_name(self.ty).to_owned();
        failed(&self.kernels, Error::ResultOverflow { to })
    }

    fn apply(&self, ctx: &Context<'_>, total: &mut Total, sign: i128) -> rusqlite::Result<()> {
        let raw = ctx.get_raw(0);
        let value = match raw {
            ValueRef::Null => return Ok(()),
            ValueRef::Integer(int) => Value::Int(int),
            _ => {
                storage::load(raw, self.ty, "sum").map_err(|error| failed(&self.kernels, error))?
            }
        };
        match value {
            Value::Int(int) => {
                total.exact += sign * i128::from(int);
                #[allow(clippy::cast_precision_loss)]
                let float = int as f64;
                total.float += if sign < 0 { -float } else { float };
            }
            Value::Decimal { unscaled, .. } => {
                total.exact =
                    total.exact.checked_add(sign * unscaled).ok_or_else(|| self.overflow())?;
            }
            Value::Float(float) => total.float += if sign < 0 { -float } else { float },
            _ => return Err(self.overflow()),
        }
        total.count = if sign > 0 { total.count + 1 } else { total.count.saturating_sub(1) };
        Ok(())
    }

    fn result(&self, total: Option<&Total>) -> Output {
        let Some(total) = total.filter(|total| total.count > 0) else {
            return Ok(ToSqlOutput::Owned(Stored::Null));
        };
        let small = || i64::try_from(total.exact).map_err(|_| self.overflow());
        let value = match self.ty {
            SqlType::Int => {
                let int = small()?;
                i32::try_from(int).map_err(|_| self.overflow())?;
                Value::Int(int)
            }
            SqlType::BigInt => Value::Int(small()?),
            SqlType::Money => Value::Money(small()?),
            SqlType::Decimal { scale, .. } => Value::Decimal { unscaled: total.exact, scale },
            _ if total.float.is_finite() => Value::Float(total.float),
            _ => return Err(self.overflow()),
        };
        storage::output(&value, self.ty).map_err(|error| failed(&self.kernels, error))
    }
}

impl Aggregate<Total, ToSqlOutput<'static>> for Sum {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Total> {
        Ok(Total::default())
    }

    fn step(&self, ctx: &mut Context<'_>, total: &mut Total) -> rusqlite::Result<()> {
        self.apply(ctx, total, 1)
    }

    fn finalize(&self, _: &mut Context<'_>, total: Option<Total>) -> Output {
        self.result(total.as_ref())
    }
}

impl WindowAggregate<Total, ToSqlOutput<'static>> for Sum {
    fn value(&self, total: Option<&mut Total>) -> Output {
        self.result(total.as_deref())
    }

    fn inverse(&self, ctx: &mut Context<'_>, total: &mut Total) -> rusqlite::Result<()> {
        self.apply(ctx, total, -1)
    }
}

/// Spread by Welford's method: variance or deviation, of the sample or the population.
pub(crate) struct Spread {
    pub(crate) root: bool,
    pub(crate) whole: bool,
}

#[derive(Default)]
pub(crate) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Aggregate<Moments, Option<f64>> for Spread {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Moments> {
        Ok(Moments::default())
    }

    fn step(&self, ctx: &mut Context<'_>, moments: &mut Moments) -> rusqlite::Result<()> {
        let Some(x) = ctx.get::<Option<f64>>(0)? else { return Ok(()) };
        moments.count += 1.0;
        let delta = x - moments.mean;
        moments.mean += delta / moments.count;
        moments.squares += delta * (x - moments.mean);
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        moments: Option<Moments>,
    ) -> rusqlite::Result<Option<f64>> {
        let Some(moments) = moments else { return Ok(None) };
        let by = if self.whole { moments.count } else { moments.count - 1.0 };
        if by <= 0.0 {
            return Ok(None);
        }
        let variance = moments.squares / by;
        Ok(Some(if self.root { variance.sqrt() } else { variance }))
    }
}

/// The only value of a subquery; a second one is an error.
pub(crate) struct Single {
    pub(crate) kernels: Kernels,
}

impl Aggregate<Option<Stored>, Stored> for Single {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Option<Stored>> {
        Ok(None)
    }

    fn step(&self, ctx: &mut Context<'_>, found: &mut Option<Stored>) -> rusqlite::Result<()> {
        if found.is_some() {
            return Err(failed(&self.kernels, Error::ManyRows {}));
        }
        *found = Some(ctx.get::<Stored>(0)?);
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        found: Option<Option<Stored>>,
    ) -> rusqlite::Result<Stored> {
        Ok(found.flatten().unwrap_or(Stored::Null))
    }
}

/// The objects of FOR JSON, with commas between them.
pub(crate) struct Objects {
    pub(crate) kernels: Kernels,
}

#[derive(Default)]
pub(crate) struct Nested {
    out: String,
    /// The members of the objects that are open, one for each level.
    open: Vec<String>,
}

impl Nested {
    /// Ends the objects and arrays above the first `keep` levels' objects.
    fn close(&mut self, keep: usize) {
        while self.open.len() > keep {
            self.open.pop();
            self.out.push('}');
            if !self.open.is_empty() {
                self.out.push(']');
            }
        }
    }
}

impl Objects {
    fn text(&self, ctx: &Context<'_>, at: usize) -> rusqlite::Result<String> {
        let text: Option<String> = ctx.get(at)?;
        text.ok_or_else(|| {
            let detail = "an object of FOR JSON".to_owned();
            failed(&self.kernels, Error::Internal { detail })
        })
    }
}

impl Aggregate<Nested, Option<String>> for Objects {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Nested> {
        Ok(Nested::default())
    }

    fn step(&self, ctx: &mut Context<'_>, nested: &mut Nested) -> rusqlite::Result<()> {
        let levels = ctx.len().div_ceil(2);
        let mut own = Vec::with_capacity(levels);
        for level in 0..levels {
            own.push(self.text(ctx, 2 * level)?);
        }
        let bytes = own.iter().map(String::len).sum::<usize>();
        crate::value::affordable(nested.out.len().saturating_add(bytes))
            .map_err(|error| failed(&self.kernels, error))?;
        // the innermost object is a new one always
        let same = nested.open.iter().zip(&own[..levels - 1]).take_while(|(a, b)| a == b).count();
        nested.close(same + 1);
        if nested.open.len() > same {
            // one more object beside the last one of this level
            nested.open.pop();
            nested.out.push_str("},");
        }
        for (level, members) in own.into_iter().enumerate().skip(same) {
            if level > same {
                let name = self.text(ctx, 2 * level - 1)?;
                let before = nested.open.last().is_some_and(|members| !members.is_empty());
                nested.out.push_str(if before { "," } else { "" });
                nested.out.extend([&*name, ":["]);
            }
            nested.out.extend(["{", &*members]);
            nested.open.push(members);
        }
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        nested: Option<Nested>,
    ) -> rusqlite::Result<Option<String>> {
        let Some(mut nested) = nested else { return Ok(None) };
        nested.close(0);
        Ok(Some(nested.out))
    }
}
