//! DEFAULTs as SQL Server shows them. Drivers compare this form with what they wrote, and drop a
//! DEFAULT that differs.

use crate::ast::{BinOp, Call, Expr, UnOp};
use crate::parse::default_expression;

/// Functions whose first argument is a part of a date.
const WITH_DATEPART: [&str; 6] =
    ["dateadd", "datediff", "datediff_big", "datename", "datepart", "datetrunc"];

/// Returns the definition of a DEFAULT: in parentheses, numbers in another pair, functions in lower
/// case. An expression without a canonical form stays as written.
pub(crate) fn shown(text: &str) -> String {
    let told = default_expression(text).ok().and_then(|expr| told(&expr));
    format!("({})", told.as_deref().unwrap_or(text))
}

fn told(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Null => "NULL".to_owned(),
        Expr::Int(digits) | Expr::Dec(digits) | Expr::Float(digits) => format!("({digits})"),
        Expr::Str(text, wide) => {
            let prefix = if *wide { "N" } else { "" };
            format!("{prefix}'{}'", text.replace('\'', "''"))
        }
        Expr::Hex(bytes) => format!("0x{}", hex::encode_upper(bytes)),
        Expr::Unary(UnOp::Minus, inner) => match &**inner {
            Expr::Int(digits) | Expr::Dec(digits) | Expr::Float(digits) => format!("(-{digits})"),
            _ => return None,
        },
        Expr::Binary(op, left, right) => {
            let side = |side: &Expr| match side {
                Expr::Binary(..) => told(side).map(|text| format!("({text})")),
                _ => told(side),
            };
            format!("{}{}{}", side(left)?, sign(*op), side(right)?)
        }
        Expr::Call(call) => called(call)?,
        Expr::Next(name, _) => {
            let quoted = |part: &str| format!("[{}]", part.replace(']', "]]"));
            let schema = quoted(name.part(1).unwrap_or("dbo"));
            format!("NEXT VALUE FOR {schema}.{}", quoted(name.object()))
        }
        _ => return None,
    })
}

fn called(call: &Call) -> Option<String> {
    let plain = !call.distinct && !call.star && call.over.is_none() && call.within.is_empty();
    let [name] = call.name.0.as_slice() else { return None };
    let name = name.to_lowercase();
    let name = match name.as_str() {
        "current_timestamp" => "getdate",
        "user" | "current_user" | "session_user" => "user_name",
        "system_user" => "suser_sname",
        name => name,
    };
    let mut args = Vec::new();
    for (at, arg) in call.args.iter().enumerate() {
        args.push(match arg {
            Expr::Column(part) if at == 0 && WITH_DATEPART.contains(&name) => {
                part.object().to_lowercase()
            }
            arg => told(arg)?,
        });
    }
    plain.then(|| format!("{name}({})", args.join(",")))
}

fn sign(op: BinOp) -> char {
    match op {
        BinOp::Add => '+',
        BinOp::Sub => '-',
        BinOp::Mul => '*',
        BinOp::Div => '/',
        BinOp::Mod => '%',
        BinOp::BitAnd => '&',
        BinOp::BitOr => '|',
        BinOp::BitXor => '^',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_as_sql_server_shows_them() {
        for (written, definition) in [
            ("0", "((0))"),
            ("(0)", "((0))"),
            ("((1.50))", "((1.50))"),
            ("-1", "((-1))"),
            ("'it''s'", "('it''s')"),
            ("N'x'", "(N'x')"),
            ("NULL", "(NULL)"),
            ("0x0aFF", "(0x0AFF)"),
            ("GETDATE()", "(getdate())"),
            ("CURRENT_TIMESTAMP", "(getdate())"),
            ("NewSequentialID()", "(newsequentialid())"),
            ("newid ( )", "(newid())"),
            ("SYSTEM_USER", "(suser_sname())"),
            ("DATEADD(Day, 1, GETDATE())", "(dateadd(day,(1),getdate()))"),
            ("1 + 2 * 3", "((1)+((2)*(3)))"),
            ("'a' + 'b'", "('a'+'b')"),
            // without a canonical form
            ("CAST(5 AS int)", "(CAST(5 AS int))"),
            ("CASE WHEN 1 = 1 THEN 2 END", "(CASE WHEN 1 = 1 THEN 2 END)"),
        ] {
            assert_eq!(shown(written), definition, "{written}");
        }
    }
}
