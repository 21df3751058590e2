//! The connection of a session: databases are attached on first use; tables as the binder sees
//! them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, TransactionState};

use crate::ast::defined::UserType;
use crate::ast::{CreateTable, Expr, Name};
use crate::error::{Error, Result};
use crate::host::SharedHost;
use crate::name::{is_global, is_local, quote, schema_and_name};
use crate::plan::table::{Catalog, Sequence};
use crate::plan::trigger::Trigger;
pub(crate) use crate::render::failure::failure;
use crate::render::kernels::Kernels;
use crate::render::nested::lending;
use crate::run::catalog::facts::read;
use crate::run::catalog::model::{Facts, Snapshot};
use crate::run::catalog::tables::{load, module};
use crate::run::catalog::{Table, TableKind, named, schemas, system};
use crate::run::fired::Fired;
use crate::run::gate::{Rights, Who, is_own};
use crate::run::globals::{Globals, Mine, TEMPDB};
use crate::run::renew::Seen;
use crate::sqlite_pages::Pages;
use crate::sqlite_pages::pages;

/// How long a statement waits for a connection that holds a database's file exclusively: the last
/// session that closes it copies its log.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Number of statements that a connection keeps prepared.
const PREPARED: usize = 64;
/// Page cache of a connection in KiB, negative as SQLite requires.
const CACHE_KIB: i64 = -2048;

/// Maximum number of databases that SQLite attaches to a connection (`SQLITE_MAX_ATTACHED` as it is
/// by default).
const MOST_ATTACHED: usize = 10;

/// How the names in SQLite's text of attached databases begin; their own, in lower case, follow.
pub(crate) const ATTACHED: &str = "db:";

/// CHECK conditions with their names.
pub(super) type Checks = Vec<(String, Expr)>;

/// A session's connection.
pub(crate) struct Db {
    pub(crate) host: SharedHost,
    connection: Option<Connection>,
    pub(crate) kernels: Kernels,
    attached: HashMap<String, String>,
    /// The same, by their names in lower case, the one that was used last at the end.
    used: Vec<String>,
    /// Temporary tables by the scopes that created them, the innermost last.
    pub(super) temporaries: Vec<Temporary>,
    /// Global temporary tables that the session created.
    pub(super) globals: Mine,
    tables: HashMap<(String, String), Arc<Table>>,
    /// CHECK conditions of tables that call functions.
    pub(super) checks: HashMap<(String, String), Arc<Checks>>,
    pub(crate) fired: Fired,
    /// Schemas of the attached databases.
    schemas: Seen,
    version: Arc<AtomicU64>,
    /// Counts how often databases were detached, because plans use the attached names, and how
    /// often another process changed a schema.
    let_go: u64,
    seen: u64,
    /// Moves of schemas that `tables` and the plans that are kept have followed.
    pub(super) known: u64,
    /// Moves of schemas by the time when the running statement was bound.
    pub(super) planned: u64,
    /// Number of definitions that were changed.
    pub(super) defined: u64,
    /// Pages counted for databases and connections that were closed.
    gone: Pages,
    /// Whom the session works for.
    pub(crate) who: Who,
    /// Rights that the running statement has read, by database in lower case.
    pub(super) rights: HashMap<String, Arc<Rights>>,
    /// A connection of its own to one database, by the name in lower case, for rights in a
    /// transaction that does not see changes of others.
    pub(super) apart: Option<(String, Connection)>,
    /// Cancel flag of the running request's client.
    pub(crate) cancel: Cancel,
    /// Definitions of table variables in functions, by their numbers.
    locals: Vec<CreateTable>,
    /// True while the connection is lent to functions.
    lent: bool,
}

/// A temporary table.
#[derive(Debug, Clone)]
pub(crate) struct Temporary {
    /// In lower case.
    pub(super) name: String,
    /// The name in SQLite.
    pub(super) stored: String,
    /// Nesting level of the procedure that created it: 0 in a batch.
    pub(super) level: u32,
    /// A table variable of an outer scope, passed as a parameter.
    pub(super) lent: bool,
}

/// The cancel flag of the running request, shared with SQLite's progress handler.
pub(crate) type Cancel = Arc<std::sync::Mutex<Arc<std::sync::atomic::AtomicBool>>>;

impl Drop for Db {
    fn drop(&mut self) {
        self.close();
    }
}

impl Db {
    pub(crate) fn new(host: SharedHost, version: Arc<AtomicU64>, globals: &Globals) -> Db {
        Db {
            kernels: Kernels::of(host.clone()),
            host,
            connection: None,
            attached: HashMap::new(),
            used: Vec::new(),
            temporaries: Vec::new(),
            globals: globals.enter(),
            tables: HashMap::new(),
            checks: HashMap::new(),
            fired: Fired::default(),
            schemas: Seen::default(),
            version,
            let_go: 0,
            known: 0,
            planned: 0,
            defined: 0,
            seen: 0,
            gone: Pages::default(),
            who: Who::default(),
            rights: HashMap::new(),
            apart: None,
            cancel: Cancel::default(),
            locals: Vec::new(),
            lent: false,
        }
    }

    pub(crate) fn peek(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    pub(crate) fn connection(&mut self) -> Result<&Connection> {
        if self.connection.is_none() {
            if self.lent {
                let detail = "the connection is in use by functions".to_owned();
                return Err(Error::Internal { detail });
            }
            let mut connection = self.host.connect()?;
            crate::render::sqlite::prepare(&connection, &self.kernels)?;
            connection.set_prepared_statement_cache_capacity(PREPARED);
            let internal = |error: rusqlite::Error| Error::Internal { detail: error.to_string() };
            let cancel = self.cancel.clone();
            let stop = move || {
                let flag = cancel.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                flag.load(Ordering::Acquire)
            };
            connection.progress_handler(4096, Some(stop)).map_err(internal)?;
            connection.busy_timeout(BUSY).map_err(internal)?;
            connection
                .execute_batch("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;")
                .map_err(internal)?;
            self.connection = Some(connection);
        }
        self.connection.as_ref().ok_or(Error::Internal { detail: "no connection".to_owned() })
    }

    /// Sets how long SQLite itself waits for others, until the next call: [`BUSY`] by default.
    pub(crate) fn set_patience(&mut self, patience: Option<Duration>) -> Result<()> {
        let internal = |error: rusqlite::Error| Error::Internal { detail: error.to_string() };
        self.connection()?.busy_timeout(patience.unwrap_or(BUSY)).map_err(internal)
    }

    #[cfg(test)]
    pub(super) fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Runs texts of SQLite's, whose errors are those of a database.
    pub(crate) fn execute(&mut self, sql: &str, database: &str) -> Result<()> {
        let kernels = self.kernels.clone();
        let result = self.connection()?.execute_batch(sql);
        result.map_err(|error| failure(&kernels, &error, database))
    }

    /// Returns true if SQLite has a transaction open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.peek().is_some_and(|connection| !connection.is_autocommit())
    }

    /// Returns the attached databases by their names in SQLite's text.
    pub(crate) fn open(&self) -> Vec<String> {
        self.attached.values().cloned().collect()
    }

    /// Returns true if the connection may write into a database: its transaction has the write
    /// lock.
    pub(crate) fn writes(&self, schema: &str) -> bool {
        let state = self.connection.as_ref().map(|open| open.transaction_state(Some(schema)));
        matches!(state, Some(Ok(TransactionState::Write)))
    }

    /// Returns the name in SQLite's text of a database that is attached.
    pub(super) fn attached(&self, database: &str) -> Option<&str> {
        self.attached.get(&database.to_lowercase()).map(String::as_str)
    }

    /// Returns the database's name in SQLite's text; attaches it if needed. Every use of a database
    /// comes through here.
    ///
    /// # Errors
    /// 916 if the login may not enter it.
    pub(crate) fn schema(&mut self, database: &str) -> Result<String> {
        if !self.who.sysadmin {
            self.rights(database)?;
        }
        self.attach(database)
    }

    /// As [`Db::schema`], for whoever decides whether the login may enter.
    pub(super) fn attach(&mut self, database: &str) -> Result<String> {
        let key = database.to_lowercase();
        if let Some(schema) = self.attached.get(&key).cloned() {
            self.note_use(key);
            return Ok(schema);
        }
        let known = self.host.databases()?;
        let found = known
            .into_iter()
            .find(|known| known.name.eq_ignore_ascii_case(database))
            .ok_or_else(|| Error::UnknownDatabase { name: database.to_owned() })?;
        let schema = format!("{ATTACHED}{key}");
        let kernels = self.kernels.clone();
        let host = self.host.clone();
        let opening = host.opening(&found.name)?;
        self.make_room();
        let connection = self.connection()?;
        connection
            .execute(&format!("ATTACH ?1 AS {}", quote(&schema)), [&opening.uri])
            .and_then(|_| {
                let name = quote(&schema);
                // nothing of tempdb has to survive; SQLite refuses this in a transaction
                let sync = match key == TEMPDB && connection.is_autocommit() {
                    true => format!("; PRAGMA {name}.synchronous = OFF"),
                    false => String::new(),
                };
                connection.execute_batch(&format!("PRAGMA {name}.cache_size = {CACHE_KIB}{sync}"))
            })
            .map_err(|error| {
                let reason = failure(&kernels, &error, database);
                host.why_closed(&found.name).unwrap_or(reason)
            })?;
        let noted = self.connection.as_ref().map(|open| self.schemas.note(open, &schema));
        noted.transpose().map_err(|error| failure(&kernels, &error, database))?;
        self.attached.insert(key.clone(), schema.clone());
        self.note_use(key);
        Ok(schema)
    }

    fn note_use(&mut self, key: String) {
        if self.used.last() != Some(&key) {
            self.used.retain(|known| *known != key);
            self.used.push(key);
        }
    }

    /// Detaches the database that was used longest ago where SQLite attaches no more. It refuses
    /// that in a transaction, and for those that a running statement reads; tempdb has tables of
    /// this session. Where all stay, SQLite reports why no more is attached.
    fn make_room(&mut self) {
        if self.attached.len() < MOST_ATTACHED {
            return;
        }
        if self.peek().is_some_and(Connection::is_autocommit) {
            let oldest = self.used.clone();
            let mut oldest = oldest.iter().filter(|key| *key != TEMPDB);
            let _found = oldest.find(|key| self.detach(key).is_ok());
        }
    }

    /// Closes a database's file before the host changes it.
    pub(crate) fn detach(&mut self, database: &str) -> Result<()> {
        let key = database.to_lowercase();
        self.apart.take_if(|(known, _)| *known == key);
        let Some(schema) = self.attached.remove(&key) else { return Ok(()) };
        let kernels = self.kernels.clone();
        self.schemas.forget(&schema);
        // plans refer to the attached database
        self.changed();
        self.let_go += 1;
        let connection = self.connection()?;
        connection.flush_prepared_statement_cache();
        let before = pages(connection);
        let result = connection
            .execute_batch(&format!("DETACH {}", quote(&schema)))
            .map_err(|error| failure(&kernels, &error, database));
        let own = before.minus(pages(connection));
        self.gone = self.gone.plus(own);
        match &result {
            Ok(()) => self.used.retain(|known| *known != key),
            // it is still attached
            Err(_) => drop(self.attached.insert(key, schema)),
        }
        result
    }

    /// Returns SQLite's counts for this session, which never decrease.
    pub(crate) fn pages(&self) -> Pages {
        self.connection.as_ref().map_or(self.gone, |open| self.gone.plus(pages(open)))
    }

    pub(crate) fn close(&mut self) {
        self.drop_globals();
        self.gone = self.pages();
        (self.connection, self.apart) = (None, None);
        self.attached.clear();
        self.used.clear();
        self.schemas.forget_all();
        self.temporaries.clear();
        self.locals.clear();
        self.forget_tables();
        self.let_go += 1;
    }

    /// Returns a number that changes whenever some table may have changed, or a database was
    /// detached.
    pub(crate) fn version(&self) -> u64 {
        self.shared_version().wrapping_add(self.let_go << 40)
    }

    /// Closes the connection if nothing would be lost, i.e. there is no temporary table. Returns
    /// true if it is closed.
    pub(crate) fn rest(&mut self) -> bool {
        // tables of system views begin with a tilde, and are filled before each use
        let sql = "SELECT count(*) FROM temp.sqlite_schema WHERE name NOT LIKE '~%'";
        let Some(connection) = &self.connection else { return true };
        let kept = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let free = connection.is_autocommit() && matches!(kept, Ok(0)) && !self.has_globals();
        if free {
            self.close();
        }
        free
    }

    /// Refuses to go on with a plan that was bound before somebody else changed a schema.
    pub(super) fn check_schema(&self, database: &str) -> Result<()> {
        self.unmoved(self.connection.as_ref(), database)
    }

    /// As [`Db::check_schema`], for a connection that is lent.
    pub(super) fn check_schema_of(&self, open: &Connection, database: &str) -> Result<()> {
        self.unmoved(Some(open), database)
    }

    fn unmoved(&self, open: Option<&Connection>, database: &str) -> Result<()> {
        match self.schemas.moves(open) == self.planned {
            true => Ok(()),
            false => Err(Error::DefinitionChanged { name: database.to_owned() }),
        }
    }

    /// Makes this session read tables and bind plans again if somebody else has changed a schema.
    pub(super) fn follow(&mut self) {
        let moves = self.schemas.moves(self.connection.as_ref());
        if moves != self.known {
            self.known = moves;
            self.renew();
        }
    }

    /// Returns a number that changes whenever a session of this process changes a definition.
    pub(super) fn shared_version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Does work by the connection, by which functions may read tables meanwhile. It must not ask
    /// for the connection in another way.
    pub(super) fn lending<T>(
        &mut self,
        database: &str,
        work: impl FnOnce(&Db, &Connection) -> T,
    ) -> Result<T> {
        self.connection()?;
        let Some(connection) = self.connection.take() else {
            return Err(Error::Internal { detail: "no connection".to_owned() });
        };
        let connection = Rc::new(connection);
        let kernels = self.kernels.clone();
        self.lent = true;
        let work = || lending(&connection, &kernels, database, || work(self, &connection));
        let done = catch_unwind(AssertUnwindSafe(work));
        // nobody else keeps it: what was lent has been given back
        self.connection = Rc::into_inner(connection);
        self.lent = false;
        match done {
            Ok(done) => Ok(done),
            Err(fault) => resume_unwind(fault),
        }
    }

    /// Makes this session read tables and bind plans again.
    pub(super) fn renew(&mut self) {
        self.forget_tables();
        self.let_go += 1;
    }

    /// Notes that some table has changed.
    pub(crate) fn changed(&mut self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.forget_tables();
    }

    fn forget_tables(&mut self) {
        self.tables.clear();
        self.checks.clear();
        self.fired.forget();
    }

    /// Forgets tables and triggers if some may have changed.
    pub(super) fn forget_old(&mut self) {
        let version = self.version();
        if version != self.seen {
            self.forget_tables();
            self.seen = version;
        }
    }

    /// Returns the name in SQLite, and the database, of an object that may not exist yet.
    pub(crate) fn place(&mut self, name: &Name, current: &str) -> Result<(String, String, String)> {
        if name.0.len() > 3 {
            return Err(Error::feature("a name with a server"));
        }
        let object = name.object();
        if is_local(object) {
            self.connection()?;
            return Ok(("temp".to_owned(), TEMPDB.to_owned(), self.temporary(object)));
        }
        if object.contains('.') {
            // it would be a table of another schema
            return Err(Error::feature("a name with a point in it"));
        }
        if is_global(object) {
            let schema = self.attach(TEMPDB)?;
            let leaving = self.is_leaving(&schema, object);
            // one that is about to go is looked for where it is not
            let schema = match leaving.map_err(|error| failure(&self.kernels, &error, TEMPDB))? {
                true => "temp".to_owned(),
                false => schema,
            };
            return Ok((schema, TEMPDB.to_owned(), object.to_owned()));
        }
        if is_own(object) && !self.who.sysadmin {
            // whoever changes these tables has every right
            return Err(Error::InvalidObject { name: name.text() });
        }
        let database = name.part(2).unwrap_or(current).to_owned();
        let schema = self.schema(&database)?;
        let object = match name.part(1) {
            Some(part) if !part.eq_ignore_ascii_case("dbo") => format!("{part}.{object}"),
            _ => object.to_owned(),
        };
        Ok((schema, database, object))
    }

    /// Returns the schemas of a database other than the fixed ones.
    pub(crate) fn schemas(&mut self, database: &str) -> Result<Vec<String>> {
        let schema = self.schema(database)?;
        let kernels = self.kernels.clone();
        schemas::made(self.connection()?, &schema)
            .map_err(|error| failure(&kernels, &error, database))
    }

    pub(crate) fn find(&mut self, name: &Name, current: &str) -> Result<Option<Arc<Table>>> {
        self.follow();
        self.forget_old();
        if let Some(view) = system::find(name, current) {
            return system::table(&view, self).map(|table| Some(Arc::new(table)));
        }
        let place = self.place(name, current).map_err(|error| match error {
            Error::UnknownDatabase { .. } if name.part(2).is_some() => {
                Error::InvalidObject { name: name.text() }
            }
            other => other,
        });
        let (schema, database, object) = place?;
        self.stored(&schema, &database, &object)
    }

    /// Returns the table that SQLite knows by this name.
    pub(super) fn stored(
        &mut self,
        schema: &str,
        database: &str,
        object: &str,
    ) -> Result<Option<Arc<Table>>> {
        let key = (schema.to_owned(), object.to_lowercase());
        if let Some(table) = self.tables.get(&key) {
            return Ok(Some(table.clone()));
        }
        let kernels = self.kernels.clone();
        let connection = self.connection()?;
        let loaded = load(connection, schema, database, object)
            .map_err(|error| failure(&kernels, &error, database))?;
        let Some(table) = loaded else { return Ok(None) };
        let table = Arc::new(table);
        self.tables.insert(key, table.clone());
        Ok(Some(table))
    }

    /// Returns the state in which functions look up objects: the current database and others, each
    /// read now; only these names, if given.
    pub(crate) fn snapshot(
        &mut self,
        current: &str,
        login: &str,
        wanted: &[String],
        names: Option<&[String]>,
    ) -> Result<Snapshot> {
        let databases = self.host.databases()?;
        let mut read_now: Vec<Facts> = Vec::new();
        for name in wanted {
            let name = if name.is_empty() { current } else { name };
            let known = databases.iter().any(|known| known.name.eq_ignore_ascii_case(name));
            if known && !read_now.iter().any(|facts| facts.database.eq_ignore_ascii_case(name)) {
                if self.rights_even_if_out(name).is_ok_and(|rights| rights.user.is_none()) {
                    // nobody learns what is there
                    let database = name.to_owned();
                    read_now.push(Facts { database, ..Facts::default() });
                    continue;
                }
                read_now.push(match names {
                    Some(names) => named::read(self, name, names)?,
                    None => read(self, name)?,
                });
            }
        }
        let (current, login) = (current.to_owned(), login.to_owned());
        Ok(Snapshot { current, login, databases, read: read_now, ..Snapshot::default() })
    }

    /// Returns the kind of a function, as `tsql_module` has it: that of tables if there is none.
    pub(crate) fn function_kind(&mut self, name: &Name, current: &str) -> Result<&'static str> {
        for kind in ["FN", "TF"] {
            if self.module(name, current, kind)?.is_some() {
                return Ok(kind);
            }
        }
        Ok("IF")
    }

    /// Returns the text of a procedure.
    pub(crate) fn module(
        &mut self,
        name: &Name,
        current: &str,
        kind: &str,
    ) -> Result<Option<String>> {
        let (schema, database, object) = self.place(name, current)?;
        let kernels = self.kernels.clone();
        let connection = self.connection()?;
        module(connection, &schema, &object, kind)
            .map_err(|error| failure(&kernels, &error, &database))
    }
}

/// The tables that a session sees from its database.
pub(crate) struct View<'a> {
    pub(crate) db: &'a mut Db,
    pub(crate) database: &'a str,
    pub(crate) identity_insert: Option<&'a str>,
}

impl Catalog for View<'_> {
    fn table(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        match self.db.fired.logical(name) {
            Some(logical) => Ok(Some(logical)),
            None => self.db.find(name, self.database),
        }
    }

    fn scalar_function(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        let (schema, database, stored) = self.db.place(name, self.database)?;
        let text = self.db.module(name, self.database, "FN")?;
        let kind = text.map(TableKind::Function);
        let columns = Vec::new();
        Ok(kind.map(|kind| Arc::new(Table { schema, database, name: stored, columns, kind })))
    }

    fn local_number(&mut self, made: &CreateTable) -> usize {
        let locals = &mut self.db.locals;
        locals.iter().position(|known| known == made).unwrap_or_else(|| {
            locals.push(made.clone());
            locals.len() - 1
        })
    }

    fn triggers(&mut self, table: &Table) -> Result<Vec<Arc<Trigger>>> {
        self.db.firing(table)
    }

    fn sequence(&mut self, name: &Name) -> Result<Option<Arc<Sequence>>> {
        self.db.sequence(name, self.database)
    }

    fn user_type(&mut self, database: &str, stored: &str) -> Result<Option<Arc<UserType>>> {
        let (schema, name) = schema_and_name(stored);
        self.db.user_type(&Name(vec![schema, name]), database)
    }

    fn identity_insert(&self, table: &Table) -> bool {
        self.identity_insert == Some(table.sql().as_str())
    }
}
