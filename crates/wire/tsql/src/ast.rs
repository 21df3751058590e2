//! The parser's output for a batch: statements with their lines.

pub(crate) mod cursor;
pub(crate) mod defined;
pub(crate) mod document;
pub(crate) mod pivot;
pub(crate) mod principal;
pub(crate) mod trigger;
pub(crate) mod walk;

use tdekit_wire_tds::{Collation, SqlType};

use crate::host::{
    AlterDatabase, Backup, CertificateBackup, CreateCertificate, CreateDatabase, EncryptionKey,
    Restore,
};

pub(crate) use crate::value::arith::BinOp;
pub(crate) use defined::{JsonColumn, TableCall};
pub(crate) use walk::Child;

/// A name of one to four parts, the last one the object's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Name(pub(crate) Vec<String>);

impl Name {
    pub(crate) fn object(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// The name without its last part.
    pub(crate) fn above(&self) -> Name {
        Name(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    /// The part at distance `back` before the object's.
    pub(crate) fn part(&self, back: usize) -> Option<&str> {
        let at = self.0.len().checked_sub(back + 1)?;
        self.0.get(at).map(String::as_str).filter(|part| !part.is_empty())
    }

    /// The name in SQLite of something in its own database.
    pub(crate) fn stored(&self) -> String {
        match self.part(1) {
            Some(schema) if !schema.eq_ignore_ascii_case("dbo") => {
                format!("{schema}.{}", self.object())
            }
            _ => self.object().to_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.0.join(".")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnOp {
    Minus,
    Plus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Over {
    pub(crate) partition: Vec<Expr>,
    pub(crate) order: Vec<OrderItem>,
    /// ROWS or RANGE with its bounds, as SQLite writes them too.
    pub(crate) frame: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: Name,
    pub(crate) args: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) star: bool,
    pub(crate) over: Option<Over>,
    pub(crate) within: Vec<OrderItem>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Null,
    Int(String),
    Dec(String),
    Float(String),
    Money(String),
    Str(String, bool),
    Hex(Vec<u8>),
    Var(String),
    Column(Name),
    Unary(UnOp, Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    Compare(CmpOp, Box<Expr>, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>, bool),
    Between(Box<Expr>, Box<Expr>, Box<Expr>, bool),
    InList(Box<Expr>, Vec<Expr>, bool),
    InQuery(Box<Expr>, Box<Query>, bool),
    Like(Box<Expr>, Box<Expr>, Option<Box<Expr>>, bool),
    Exists(Box<Query>),
    /// Operand, operator, whether ALL, query.
    Quantified(Box<Expr>, CmpOp, bool, Box<Query>),
    Case(Option<Box<Expr>>, Vec<(Expr, Expr)>, Option<Box<Expr>>),
    /// Operand, type, style, whether TRY_.
    Convert(Box<Expr>, SqlType, Option<Box<Expr>>, bool),
    Call(Box<Call>),
    /// NEXT VALUE FOR: the sequence, and the number of the place among those of a row.
    Next(Name, usize),
    Subquery(Box<Query>),
    /// DEFAULT as an argument of a function of a database.
    Default,
    Collate(Box<Expr>, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderItem {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cte {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) query: Query,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) body: SetExpr,
    pub(crate) order: Vec<OrderItem>,
    pub(crate) offset: Option<(Expr, Option<Expr>)>,
    pub(crate) json: Option<Box<document::ForJson>>,
    pub(crate) xml: Option<Box<document::ForXml>>,
    /// OPTION (MAXRECURSION n).
    pub(crate) max_recursion: Option<i64>,
    pub(crate) line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOp {
    Union,
    UnionAll,
    Intersect,
    Except,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SetExpr {
    Select(Box<Select>),
    Op(SetOp, Box<SetExpr>, Box<SetExpr>),
    Nested(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Top {
    pub(crate) count: Expr,
    pub(crate) percent: bool,
    pub(crate) ties: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) top: Option<Top>,
    pub(crate) items: Vec<Item>,
    pub(crate) into: Option<Name>,
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group: Vec<Expr>,
    /// Grouping sets, as positions in `group`; none for a GROUP BY of expressions only.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) having: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Star(Option<Name>),
    Expr(Expr, Option<String>),
    /// Variable, the operator before `=`, expression.
    Assign(String, Option<BinOp>, Expr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
    CrossApply,
    OuterApply,
}

/// What a table's hints ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hints {
    /// A lock while the statement runs: it waits for sessions that change the table.
    pub(crate) wait: bool,
    /// A lock to the end of the transaction.
    pub(crate) hold: bool,
    /// An error in place of waiting.
    pub(crate) nowait: bool,
    /// READPAST.
    pub(crate) past: bool,
}

impl Hints {
    /// The union of both.
    pub(crate) fn and(self, other: Hints) -> Hints {
        Hints {
            wait: self.wait || other.wait,
            hold: self.hold || other.hold,
            nowait: self.nowait || other.nowait,
            past: self.past || other.past,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableRef {
    Table(Name, Option<String>, Hints),
    Derived(Box<Query>, String, Vec<String>),
    Values(Vec<Vec<Expr>>, String, Vec<String>),
    Function(TableCall),
    /// A function of the database.
    Called(Box<defined::FunctionCall>),
    Pivot(Box<pivot::Pivot>),
    Join(JoinKind, Box<TableRef>, Box<TableRef>, Option<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// Rows; None is DEFAULT.
    Values(Vec<Vec<Option<Expr>>>),
    Query(Box<Query>),
    Defaults,
    Exec(Box<Exec>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Insert {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Name,
    pub(crate) hints: Hints,
    pub(crate) columns: Vec<String>,
    pub(crate) output: Vec<Item>,
    pub(crate) output_into: Option<OutputInto>,
    pub(crate) source: Source,
}

/// OUTPUT .. INTO: a table and its columns, all if none are named.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputInto {
    pub(crate) target: Name,
    pub(crate) columns: Vec<String>,
}

/// `INSERT BULK`: the rows come in a separate message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InsertBulk {
    pub(crate) target: Name,
    /// Columns with the types that the client sends, and true behind COLLATE.
    pub(crate) columns: Vec<(String, SqlType, bool)>,
    pub(crate) keep_nulls: bool,
    /// FIRE_TRIGGERS.
    pub(crate) fires: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SetTarget {
    Column(Name),
    Var(String),
    /// `@v = column = expr`.
    Both(String, Name),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) top: Option<Top>,
    pub(crate) target: Name,
    pub(crate) hints: Hints,
    pub(crate) sets: Vec<SetItem>,
    pub(crate) output: Vec<Item>,
    pub(crate) output_into: Option<OutputInto>,
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Expr>,
}

/// `target = value`, with the operator before `=`; None is DEFAULT.
pub(crate) type SetItem = (SetTarget, Option<BinOp>, Option<Expr>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merge {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) target: Name,
    pub(crate) alias: Option<String>,
    pub(crate) hints: Hints,
    pub(crate) source: TableRef,
    pub(crate) on: Expr,
    pub(crate) whens: Vec<When>,
    pub(crate) output: Vec<Item>,
    pub(crate) output_into: Option<OutputInto>,
}

impl Merge {
    /// Returns true if it has a clause of this kind.
    pub(crate) fn has(&self, kind: WhenKind) -> bool {
        self.whens.iter().any(|when| when.kind == kind)
    }

    /// Returns true if rows of the target count that no row of the source matches.
    pub(crate) fn keeps_target(&self) -> bool {
        self.has(WhenKind::NotSource)
    }
}

/// WHEN of MERGE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct When {
    pub(crate) kind: WhenKind,
    pub(crate) condition: Option<Expr>,
    pub(crate) action: MergeAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenKind {
    Matched,
    /// NOT MATCHED BY TARGET.
    NotMatched,
    /// NOT MATCHED BY SOURCE.
    NotSource,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MergeAction {
    Update(Vec<SetItem>),
    Delete,
    /// Without values, DEFAULT VALUES; a value of None is DEFAULT.
    Insert {
        columns: Vec<String>,
        values: Option<Vec<Option<Expr>>>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delete {
    pub(crate) ctes: Vec<Cte>,
    pub(crate) top: Option<Top>,
    pub(crate) target: Name,
    pub(crate) hints: Hints,
    pub(crate) output: Vec<Item>,
    pub(crate) output_into: Option<OutputInto>,
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arg {
    pub(crate) name: Option<String>,
    /// None is DEFAULT.
    pub(crate) value: Option<Expr>,
    pub(crate) output: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExecTarget {
    Procedure(Name),
    Variable(String),
    Text(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exec {
    pub(crate) status: Option<String>,
    pub(crate) target: ExecTarget,
    pub(crate) args: Vec<Arg>,
}

/// Where the values of a column come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Filled {
    /// Statements, DEFAULT, IDENTITY.
    #[default]
    Given,
    /// An expression over the row, as written in T-SQL; SQLite's column is empty.
    Computed { text: String, persisted: bool },
    /// Each change of the row: `rowversion`.
    Version,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnDef {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: Option<bool>,
    pub(crate) identity: Option<(i64, i64)>,
    /// DEFAULT as written.
    pub(crate) default: Option<String>,
    pub(crate) default_name: Option<String>,
    /// WITH VALUES: rows that are there get the DEFAULT.
    pub(crate) with_values: bool,
    pub(crate) constraints: Vec<Constraint>,
    /// Of a computed column or a `rowversion`, whose type is not in the text.
    pub(crate) filled: Filled,
    /// A user-defined type, which is looked up when the table is made.
    pub(crate) user_type: Option<Name>,
    /// Of text.
    pub(crate) collation: Collation,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constraint {
    pub(crate) name: Option<String>,
    pub(crate) kind: ConstraintKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConstraintKind {
    /// Columns with their direction (true: descending); empty within a column.
    Primary(Vec<(String, bool)>),
    Unique(Vec<(String, bool)>),
    /// The condition, and its text as written.
    Check(Expr, String),
    Foreign {
        columns: Vec<String>,
        table: Name,
        parents: Vec<String>,
        on_delete: Option<&'static str>,
        on_update: Option<&'static str>,
    },
    /// DEFAULT as written, and the column of its FOR.
    Default(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) name: Name,
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) constraints: Vec<Constraint>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AlterTable {
    /// With true, WITH NOCHECK: rows that are there are not checked.
    Add(Vec<ColumnDef>, Vec<Constraint>, bool),
    /// With true, IF EXISTS.
    DropColumn(Vec<String>, bool),
    /// The column's new type and nullability.
    AlterColumn(ColumnDef),
    DropConstraint(Vec<String>, bool),
    /// CHECK CONSTRAINT and NOCHECK CONSTRAINT; ALL if none is named.
    Switch {
        names: Vec<String>,
        enable: bool,
        check: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcParam {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) default: Option<Expr>,
    pub(crate) output: bool,
    /// Its user-defined type; a table type is READONLY.
    pub(crate) user_type: Option<std::sync::Arc<defined::UserType>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateProc {
    pub(crate) name: Name,
    pub(crate) params: Vec<ProcParam>,
    pub(crate) body: Vec<Stmt>,
    /// CREATE, ALTER, CREATE OR ALTER.
    pub(crate) may_create: bool,
    pub(crate) may_replace: bool,
    /// The statement's text, with CREATE for ALTER.
    pub(crate) text: String,
}

/// The kind of object that a DROP names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Table,
    View,
    Procedure,
    Index,
    Database,
    Certificate,
    MasterKey,
    EncryptionKey,
    Schema,
    Sequence,
    Type,
    Function,
    Trigger,
}

/// What CREATE SEQUENCE or ALTER SEQUENCE says; None where it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SequenceOptions {
    pub(crate) ty: Option<SqlType>,
    pub(crate) start: Option<i64>,
    /// RESTART, and its value.
    pub(crate) restart: Option<Option<i64>>,
    pub(crate) increment: Option<i64>,
    /// None within is NO MINVALUE.
    pub(crate) minimum: Option<Option<i64>>,
    pub(crate) maximum: Option<Option<i64>>,
    pub(crate) cycle: Option<bool>,
    /// False for NO CACHE; the size.
    pub(crate) cache: Option<(bool, Option<i64>)>,
}

/// A string or number in an encryption statement: a literal or a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Text(String),
    Var(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Security {
    CreateMasterKey { password: Option<String> },
    OpenMasterKey { password: String },
    CloseMasterKey,
    AlterMasterKey { password: String, force: bool },
    BackupMasterKey { file: String, password: String },
    CreateCertificate(CreateCertificate),
    BackupCertificate(CertificateBackup),
    CreateEncryptionKey(EncryptionKey),
    AlterEncryptionKey(EncryptionKey),
    AlterDatabase { database: Option<String>, change: AlterDatabase },
    Backup(Box<Backup<Operand>>),
    Restore(Box<Restore<Operand>>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TranOp {
    Begin,
    Commit,
    Rollback,
    Save,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stmt {
    pub(crate) line: u32,
    /// Its first byte in the text, and the byte after its end.
    pub(crate) span: (usize, usize),
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    Declare(Vec<(String, SqlType, Option<Expr>)>),
    Set(String, Option<BinOp>, Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    While(Expr, Box<Stmt>),
    Block(Vec<Stmt>),
    Try(Vec<Stmt>, Vec<Stmt>),
    Break,
    Continue,
    Return(Option<Expr>),
    Print(Expr),
    Raiserror {
        message: Expr,
        severity: Expr,
        state: Expr,
        args: Vec<Expr>,
        options: Vec<String>,
    },
    Throw(Option<(Expr, Expr, Expr)>),
    Wait {
        delay: bool,
        time: Expr,
    },
    Exec(Box<Exec>),
    Cursor(Box<cursor::Cursor>),
    /// A label, for GOTO.
    Label(String),
    Goto(String),
    Act(Action),
    Nothing,
}

/// Statements that are not a query, a change or control flow: one call each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    InsertBulk(Box<InsertBulk>),
    Truncate(Name),
    DeclareTable(Box<CreateTable>),
    DeclareTyped(Box<defined::DeclareTyped>),
    /// Option in upper case, its value as written.
    SetOption(Vec<String>, SetValue),
    Use(String),
    Tran(TranOp, Option<Operand>),
    CreateTable(Box<CreateTable>),
    AlterTable(Name, AlterTable),
    CreateIndex(Box<defined::CreateIndex>),
    CreateView {
        name: Name,
        columns: Vec<String>,
        query: Box<Query>,
        text: String,
        may_replace: bool,
    },
    CreateProc(Box<CreateProc>),
    CreateType(Box<defined::CreateType>),
    CreateFunction(Box<defined::CreateFunction>),
    Trigger(Box<trigger::TriggerAction>),
    CreateDatabase(Box<CreateDatabase>),
    /// CREATE SEQUENCE; without `create`, ALTER SEQUENCE.
    Sequence {
        name: Name,
        options: Box<SequenceOptions>,
        create: bool,
    },
    /// CREATE SCHEMA, and the owner if it is named.
    CreateSchema(String, Option<String>),
    /// ALTER SCHEMA, and the object that it takes.
    Transfer(String, Name),
    Drop {
        kind: ObjectKind,
        names: Vec<Name>,
        if_exists: bool,
        on: Option<Name>,
    },
    Dbcc {
        name: String,
        args: Vec<String>,
        options: Vec<String>,
    },
    Security(Security),
    Principals(Box<principal::Principals>),
    Checkpoint,
    /// KILL, and the session.
    Kill(i64),
    /// ALTER INDEX .. REBUILD, of one index or of all.
    Rebuild {
        index: Option<String>,
        table: Name,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SetValue {
    On,
    Off,
    Text(String),
    Expr(Expr),
    /// IDENTITY_INSERT's table.
    Table(Name, bool),
}
