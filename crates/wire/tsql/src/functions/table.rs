//! The functions and `@@` variables, one row each. docs/tsql.md lists their names.

use tdekit_wire_tds::{Length, SqlType};

use crate::plan::func::{Bits, Date, Json, Math, Text};
use crate::plan::scalar::AggregateFunction;
use crate::value::datetime::Part;

/// A function or variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Minimum and maximum number of arguments.
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) binding: Binding,
}

/// How a call gets its types and becomes an expression. Only COALESCE, ISNULL, NULLIF, IIF and
/// CHOOSE become SQLite's own expressions; kernels compute the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Binding {
    /// The session knows the value, of this type.
    Session(Session),
    Text(Text),
    Math(Math),
    Bits(Bits),
    Date(Date),
    Json(Json),
    /// With a part of a date as a word.
    Dated(Dated),
    Coalesce,
    IsNull,
    NullIf,
    /// GREATEST, or LEAST.
    Extreme(bool),
    IsNumeric,
    HashBytes,
    Format,
    NewId,
    /// Allowed in a DEFAULT only.
    NewSequentialId,
    /// With a condition.
    Iif,
    Choose,
    /// Over the rows of a group, or of a window.
    Aggregate,
    /// GROUPING, or GROUPING_ID: whether the set of a row has these expressions of GROUP BY.
    Grouping,
    /// Over those of a window only.
    Window(AggregateFunction),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Session {
    pub(crate) ty: SqlType,
    /// With arguments, it looks up these.
    pub(crate) looks_up: Option<Looked>,
    /// The first argument is a number.
    pub(crate) numbered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The objects of a database.
    Objects,
    /// The list of databases, or nothing but the arguments.
    Lists,
    /// Logins, users and permissions.
    Principals,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dated {
    Add,
    Diff,
    DiffBig,
    Name,
    Part,
    Trunc,
}

impl Function {
    /// Returns what a call with arguments looks up.
    pub(crate) fn looks_up(&self) -> Option<Looked> {
        match self.binding {
            Binding::Session(session) => session.looks_up,
            _ => None,
        }
    }

    const fn with(mut self, least: usize, most: usize) -> Function {
        (self.least, self.most) = (least, most);
        self
    }

    const fn of_objects(self) -> Function {
        self.looking_up(Looked::Objects)
    }

    const fn of_lists(self) -> Function {
        self.looking_up(Looked::Lists)
    }

    const fn of_principals(self) -> Function {
        self.looking_up(Looked::Principals)
    }

    const fn looking_up(mut self, looked: Looked) -> Function {
        if let Binding::Session(session) = &mut self.binding {
            session.looks_up = Some(looked);
        }
        self
    }

    const fn numbered(mut self) -> Function {
        if let Binding::Session(session) = &mut self.binding {
            session.numbered = true;
        }
        self
    }
}

const fn row(name: &'static str, least: usize, most: usize, binding: Binding) -> Function {
    Function { name, least, most, binding }
}

const fn session(name: &'static str, ty: SqlType) -> Function {
    row(name, 0, 0, Binding::Session(Session { ty, looks_up: None, numbered: false }))
}

/// Returns the row of a function, by its name in upper case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    let at = TABLE.binary_search_by(|function| function.name.cmp(name)).ok()?;
    TABLE.get(at)
}

/// Returns what a call of this function with arguments looks up.
pub(crate) fn looks_up(name: &str) -> Option<Looked> {
    find(name).and_then(Function::looks_up)
}

/// Returns the names of these.
pub(crate) fn names(which: impl Fn(Binding) -> bool) -> Vec<&'static str> {
    let found = TABLE.iter().filter(|function| which(function.binding));
    found.map(|function| function.name).collect()
}

/// In the order of their names.
pub(crate) const TABLE: &[Function] = &[
    session("@@CONNECTIONS", SqlType::Int),
    session("@@CPU_BUSY", SqlType::Int),
    session("@@CURSOR_ROWS", SqlType::Int),
    session("@@DATEFIRST", SqlType::TinyInt),
    session("@@DBTS", SqlType::VarBinary(Length::Of(8))),
    session("@@ERROR", SqlType::Int),
    session("@@FETCH_STATUS", SqlType::Int),
    session("@@IDENTITY", SqlType::Decimal { precision: 38, scale: 0 }),
    session("@@LANGID", SqlType::SmallInt),
    session("@@LANGUAGE", SqlType::NVarChar(Length::Of(128))),
    session("@@LOCK_TIMEOUT", SqlType::Int),
    session("@@MAX_PRECISION", SqlType::TinyInt),
    session("@@MICROSOFTVERSION", SqlType::Int),
    session("@@NESTLEVEL", SqlType::Int),
    session("@@OPTIONS", SqlType::Int),
    session("@@PROCID", SqlType::Int),
    session("@@ROWCOUNT", SqlType::Int),
    session("@@SERVERNAME", SqlType::NVarChar(Length::Of(128))),
    session("@@SERVICENAME", SqlType::NVarChar(Length::Of(128))),
    session("@@SPID", SqlType::SmallInt),
    session("@@TEXTSIZE", SqlType::Int),
    session("@@TRANCOUNT", SqlType::Int),
    session("@@VERSION", SqlType::NVarChar(Length::Of(300))),
    row("ABS", 1, 1, Binding::Math(Math::Abs)),
    row("ACOS", 1, 1, Binding::Math(Math::Acos)),
    session("APP_NAME", SqlType::NVarChar(Length::Of(128))),
    row("ASCII", 1, 1, Binding::Text(Text::Ascii)),
    row("ASIN", 1, 1, Binding::Math(Math::Asin)),
    row("ATAN", 1, 1, Binding::Math(Math::Atan)),
    row("ATN2", 2, 2, Binding::Math(Math::Atn2)),
    row("AVG", 1, 1, Binding::Aggregate),
    row("BIT_COUNT", 1, 1, Binding::Bits(Bits::Count)),
    row("CEILING", 1, 1, Binding::Math(Math::Ceiling)),
    row("CHAR", 1, 1, Binding::Text(Text::Char)),
    row("CHARINDEX", 2, 3, Binding::Text(Text::CharIndex)),
    row("CHOOSE", 2, 255, Binding::Choose),
    row("COALESCE", 2, 4096, Binding::Coalesce),
    row("COLLATIONPROPERTY", 2, 2, Binding::Text(Text::CollationProperty)),
    session("COLUMNPROPERTY", SqlType::Int).with(3, 3).of_objects().numbered(),
    session("COLUMNS_UPDATED", SqlType::VarBinary(Length::Of(128))),
    session("COL_LENGTH", SqlType::SmallInt).with(2, 2).of_objects(),
    session("COL_NAME", SqlType::NVarChar(Length::Of(128))).with(2, 3).of_objects().numbered(),
    row("CONCAT", 2, 254, Binding::Text(Text::Concat)),
    row("CONCAT_WS", 3, 254, Binding::Text(Text::ConcatWs)),
    session("CONNECTIONPROPERTY", SqlType::NVarChar(Length::Of(128))).with(1, 1),
    row("COS", 1, 1, Binding::Math(Math::Cos)),
    row("COT", 1, 1, Binding::Math(Math::Cot)),
    row("COUNT", 1, 1, Binding::Aggregate),
    row("COUNT_BIG", 1, 1, Binding::Aggregate),
    row("CUME_DIST", 0, 0, Binding::Window(AggregateFunction::CumeDist)),
    session("CURRENT_TIMESTAMP", SqlType::DateTime),
    session("CURRENT_USER", SqlType::NVarChar(Length::Of(128))),
    session("CURSOR_STATUS", SqlType::SmallInt).with(2, 2),
    session("DATABASEPROPERTYEX", SqlType::NVarChar(Length::Of(128))).with(2, 2).of_lists(),
    session("DATABASE_PRINCIPAL_ID", SqlType::Int).with(0, 1).of_principals(),
    row("DATALENGTH", 1, 1, Binding::Text(Text::DataLength)),
    row("DATEADD", 3, 3, Binding::Dated(Dated::Add)),
    row("DATEDIFF", 3, 3, Binding::Dated(Dated::Diff)),
    row("DATEDIFF_BIG", 3, 3, Binding::Dated(Dated::DiffBig)),
    row("DATEFROMPARTS", 3, 3, Binding::Date(Date::FromParts)),
    row("DATENAME", 2, 2, Binding::Dated(Dated::Name)),
    row("DATEPART", 2, 2, Binding::Dated(Dated::Part)),
    row("DATETIMEFROMPARTS", 7, 7, Binding::Date(Date::DateTimeFromParts)),
    row("DATETRUNC", 2, 2, Binding::Dated(Dated::Trunc)),
    row("DAY", 1, 1, Binding::Date(Date::Part(Part::Day))),
    session("DB_ID", SqlType::SmallInt).with(0, 1).of_lists(),
    session("DB_NAME", SqlType::NVarChar(Length::Of(128))).with(0, 1).of_lists().numbered(),
    row("DEGREES", 1, 1, Binding::Math(Math::Degrees)),
    row("DENSE_RANK", 0, 0, Binding::Window(AggregateFunction::DenseRank)),
    row("EOMONTH", 1, 2, Binding::Date(Date::EndOfMonth)),
    session("ERROR_LINE", SqlType::Int),
    session("ERROR_MESSAGE", SqlType::NVarChar(Length::Of(4000))),
    session("ERROR_NUMBER", SqlType::Int),
    session("ERROR_PROCEDURE", SqlType::NVarChar(Length::Of(128))),
    session("ERROR_SEVERITY", SqlType::Int),
    session("ERROR_STATE", SqlType::Int),
    row("EXP", 1, 1, Binding::Math(Math::Exp)),
    row("FIRST_VALUE", 1, 1, Binding::Window(AggregateFunction::FirstValue)),
    row("FLOOR", 1, 1, Binding::Math(Math::Floor)),
    row("FORMAT", 2, 3, Binding::Format),
    session("GETDATE", SqlType::DateTime),
    session("GETUTCDATE", SqlType::DateTime),
    row("GET_BIT", 2, 2, Binding::Bits(Bits::Get)),
    row("GREATEST", 1, 254, Binding::Extreme(true)),
    row("GROUPING", 1, 1, Binding::Grouping),
    row("GROUPING_ID", 1, 31, Binding::Grouping),
    row("HASHBYTES", 2, 2, Binding::HashBytes),
    session("HAS_DBACCESS", SqlType::Int).with(1, 1).of_principals(),
    session("HAS_PERMS_BY_NAME", SqlType::Int).with(3, 5).of_objects(),
    session("HOST_NAME", SqlType::NVarChar(Length::Of(128))),
    session("IDENT_CURRENT", SqlType::Decimal { precision: 38, scale: 0 }).with(1, 1).of_objects(),
    session("IDENT_INCR", SqlType::Decimal { precision: 38, scale: 0 }).with(1, 1).of_objects(),
    session("IDENT_SEED", SqlType::Decimal { precision: 38, scale: 0 }).with(1, 1).of_objects(),
    row("IIF", 3, 3, Binding::Iif),
    session("INDEXPROPERTY", SqlType::Int).with(3, 3).of_objects().numbered(),
    session("INDEX_COL", SqlType::NVarChar(Length::Of(128))).with(3, 3).of_objects(),
    row("ISDATE", 1, 1, Binding::Date(Date::IsDate)),
    row("ISJSON", 1, 1, Binding::Json(Json::Test)),
    row("ISNULL", 2, 2, Binding::IsNull),
    row("ISNUMERIC", 1, 1, Binding::IsNumeric),
    session("IS_MEMBER", SqlType::Int).with(1, 1).of_principals(),
    session("IS_ROLEMEMBER", SqlType::Int).with(1, 2).of_principals(),
    session("IS_SRVROLEMEMBER", SqlType::Int).with(1, 2).of_principals(),
    row("JSON_MODIFY", 3, 3, Binding::Json(Json::Modify { json: false })),
    row("JSON_QUERY", 1, 2, Binding::Json(Json::Query)),
    row("JSON_VALUE", 2, 2, Binding::Json(Json::Value)),
    row("LAG", 1, 3, Binding::Window(AggregateFunction::Lag)),
    row("LAST_VALUE", 1, 1, Binding::Window(AggregateFunction::LastValue)),
    row("LEAD", 1, 3, Binding::Window(AggregateFunction::Lead)),
    row("LEAST", 1, 254, Binding::Extreme(false)),
    row("LEFT", 2, 2, Binding::Text(Text::Left)),
    row("LEFT_SHIFT", 2, 2, Binding::Bits(Bits::Left)),
    row("LEN", 1, 1, Binding::Text(Text::Len)),
    row("LOG", 1, 2, Binding::Math(Math::Log)),
    row("LOG10", 1, 1, Binding::Math(Math::Log10)),
    row("LOWER", 1, 1, Binding::Text(Text::Lower)),
    row("LTRIM", 1, 2, Binding::Text(Text::LTrim)),
    row("MAX", 1, 1, Binding::Aggregate),
    row("MIN", 1, 1, Binding::Aggregate),
    row("MONTH", 1, 1, Binding::Date(Date::Part(Part::Month))),
    row("NCHAR", 1, 1, Binding::Text(Text::NChar)),
    row("NEWID", 0, 0, Binding::NewId),
    row("NEWSEQUENTIALID", 0, 0, Binding::NewSequentialId),
    row("NTILE", 1, 1, Binding::Window(AggregateFunction::NTile)),
    row("NULLIF", 2, 2, Binding::NullIf),
    session("OBJECTPROPERTY", SqlType::Int).with(2, 2).of_objects().numbered(),
    session("OBJECTPROPERTYEX", SqlType::Int).with(2, 2).of_objects().numbered(),
    session("OBJECT_DEFINITION", SqlType::NVarChar(Length::Max)).with(1, 1).of_objects().numbered(),
    session("OBJECT_ID", SqlType::Int).with(1, 2).of_objects(),
    session("OBJECT_NAME", SqlType::NVarChar(Length::Of(128))).with(1, 2).of_objects().numbered(),
    session("OBJECT_SCHEMA_NAME", SqlType::NVarChar(Length::Of(128)))
        .with(1, 2)
        .of_objects()
        .numbered(),
    session("ORIGINAL_LOGIN", SqlType::NVarChar(Length::Of(128))),
    row("PARSENAME", 2, 2, Binding::Text(Text::ParseName)),
    row("PATINDEX", 2, 2, Binding::Text(Text::PatIndex)),
    row("PERCENT_RANK", 0, 0, Binding::Window(AggregateFunction::PercentRank)),
    row("PI", 0, 0, Binding::Math(Math::Pi)),
    row("POWER", 2, 2, Binding::Math(Math::Power)),
    row("QUOTENAME", 1, 2, Binding::Text(Text::QuoteName)),
    row("RADIANS", 1, 1, Binding::Math(Math::Radians)),
    session("RAND", SqlType::Float).with(0, 1),
    row("RANK", 0, 0, Binding::Window(AggregateFunction::Rank)),
    row("REPLACE", 3, 3, Binding::Text(Text::Replace)),
    row("REPLICATE", 2, 2, Binding::Text(Text::Replicate)),
    row("REVERSE", 1, 1, Binding::Text(Text::Reverse)),
    row("RIGHT", 2, 2, Binding::Text(Text::Right)),
    row("RIGHT_SHIFT", 2, 2, Binding::Bits(Bits::Right)),
    row("ROUND", 2, 3, Binding::Math(Math::Round)),
    row("ROW_NUMBER", 0, 0, Binding::Window(AggregateFunction::RowNumber)),
    row("RTRIM", 1, 2, Binding::Text(Text::RTrim)),
    session("SCHEMA_ID", SqlType::Int).with(0, 1).of_objects(),
    session("SCHEMA_NAME", SqlType::NVarChar(Length::Of(128))).with(0, 1).of_objects().numbered(),
    session("SCOPE_IDENTITY", SqlType::Decimal { precision: 38, scale: 0 }),
    session("SERVERPROPERTY", SqlType::NVarChar(Length::Of(128))).with(1, 1),
    session("SESSION_USER", SqlType::NVarChar(Length::Of(128))),
    row("SET_BIT", 2, 3, Binding::Bits(Bits::Set)),
    row("SIGN", 1, 1, Binding::Math(Math::Sign)),
    row("SIN", 1, 1, Binding::Math(Math::Sin)),
    row("SPACE", 1, 1, Binding::Text(Text::Space)),
    row("SQRT", 1, 1, Binding::Math(Math::Sqrt)),
    row("SQUARE", 1, 1, Binding::Math(Math::Square)),
    row("STDEV", 1, 1, Binding::Aggregate),
    row("STDEVP", 1, 1, Binding::Aggregate),
    row("STR", 1, 3, Binding::Text(Text::Str)),
    row("STRING_AGG", 2, 2, Binding::Aggregate),
    row("STUFF", 4, 4, Binding::Text(Text::Stuff)),
    row("SUBSTRING", 3, 3, Binding::Text(Text::Substring)),
    row("SUM", 1, 1, Binding::Aggregate),
    session("SUSER_ID", SqlType::Int).with(0, 1).of_principals(),
    session("SUSER_NAME", SqlType::NVarChar(Length::Of(128))).with(0, 1).of_principals(),
    session("SUSER_SID", SqlType::VarBinary(Length::Of(85))).with(0, 1).of_principals(),
    session("SUSER_SNAME", SqlType::NVarChar(Length::Of(128))).with(0, 1).of_principals(),
    row("SWITCHOFFSET", 2, 2, Binding::Date(Date::SwitchOffset)),
    session("SYSDATETIME", SqlType::DateTime2(7)),
    session("SYSDATETIMEOFFSET", SqlType::DateTimeOffset(7)),
    session("SYSTEM_USER", SqlType::NVarChar(Length::Of(128))),
    session("SYSUTCDATETIME", SqlType::DateTime2(7)),
    row("TAN", 1, 1, Binding::Math(Math::Tan)),
    row("TODATETIMEOFFSET", 2, 2, Binding::Date(Date::ToDateTimeOffset)),
    row("TRANSLATE", 3, 3, Binding::Text(Text::Translate)),
    session("TRIGGER_NESTLEVEL", SqlType::Int).with(0, 3),
    row("TRIM", 1, 2, Binding::Text(Text::Trim)),
    session("TYPE_ID", SqlType::Int).with(1, 1).of_objects(),
    session("TYPE_NAME", SqlType::NVarChar(Length::Of(128))).with(1, 1).of_objects().numbered(),
    row("UNICODE", 1, 1, Binding::Text(Text::Unicode)),
    session("UPDATE", SqlType::Int).with(1, 1),
    row("UPPER", 1, 1, Binding::Text(Text::Upper)),
    session("USER", SqlType::NVarChar(Length::Of(128))),
    session("USER_ID", SqlType::Int).with(0, 1).of_principals(),
    session("USER_NAME", SqlType::NVarChar(Length::Of(128))).with(0, 1).of_principals(),
    row("VAR", 1, 1, Binding::Aggregate),
    row("VARP", 1, 1, Binding::Aggregate),
    session("XACT_STATE", SqlType::SmallInt),
    row("YEAR", 1, 1, Binding::Date(Date::Part(Part::Year))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_names() {
        for function in TABLE {
            assert_eq!(find(function.name), Some(function));
            assert!(function.least <= function.most, "{}", function.name);
        }
        assert_eq!(find("abs"), None);
    }
}
