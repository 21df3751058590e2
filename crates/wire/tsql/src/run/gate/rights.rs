//! The decision: whether a login may do something in a database.

use super::stored::{
    DB_BACKUPOPERATOR, DB_DATAREADER, DB_DATAWRITER, DB_DDLADMIN, DB_DENYDATAREADER,
    DB_DENYDATAWRITER, DB_OWNER, DBO, GUEST, On, PUBLIC, Principal, Rule, Stored,
};
use crate::name::schema_and_name;
use crate::plan::access::Right;

/// Whom a session works for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) login: String,
    /// None for a login that is gone: it has no user anywhere.
    pub(crate) sid: Option<Vec<u8>>,
    pub(crate) sysadmin: bool,
}

/// The rights of a login in a database.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    pub(crate) database: String,
    /// The user and its name; None for a login that cannot enter.
    pub(crate) user: Option<(i64, String)>,
    /// It is dbo, whom nothing is denied.
    pub(crate) all: bool,
    /// The roles of the user, with those that they are members of.
    pub(crate) roles: Vec<i64>,
    rules: Vec<Rule>,
    pub(crate) stored: Stored,
}

/// What a fixed role is granted or denied, on the database.
fn fixed(role: i64) -> (&'static [Right], bool) {
    match role {
        DB_OWNER => (&[Right::Control], false),
        DB_DDLADMIN => (
            &[
                Right::Connect,
                Right::CreateTable,
                Right::CreateView,
                Right::CreateProcedure,
                Right::CreateSchema,
                Right::CreateType,
                Right::CreateFunction,
                Right::AlterAnySchema,
                Right::References,
            ],
            false,
        ),
        DB_BACKUPOPERATOR => {
            (&[Right::Connect, Right::BackupDatabase, Right::BackupLog, Right::Checkpoint], false)
        }
        DB_DATAREADER => (&[Right::Select], false),
        DB_DATAWRITER => (&[Right::Insert, Right::Update, Right::Delete], false),
        DB_DENYDATAREADER => (&[Right::Select], true),
        DB_DENYDATAWRITER => (&[Right::Insert, Right::Update, Right::Delete], true),
        _ => (&[], false),
    }
}

impl Rule {
    /// Returns true if it decides about this right on this thing: it names the same or what
    /// contains it, and the same right or one that implies it.
    fn covers(&self, right: Right, on: &On) -> bool {
        let contains = match (&self.on, on) {
            (On::Database, _) => true,
            (On::Schema(own), On::Schema(other)) => own == other,
            (On::Schema(own), On::Object(object) | On::Type(object)) => {
                *own == schema_and_name(object).0
            }
            (On::Type(own), On::Type(other)) => own == other,
            (On::Object(own), On::Object(other)) => own == other,
            _ => false,
        };
        if !contains {
            return false;
        }
        if self.right == right || self.right == Right::Control {
            return right != Right::Connect || self.on == On::Database;
        }
        let creates = matches!(
            right,
            Right::CreateTable
                | Right::CreateView
                | Right::CreateProcedure
                | Right::CreateSchema
                | Right::CreateSequence
                | Right::CreateType
                | Right::CreateFunction
        );
        let alters_any =
            matches!(right, Right::AlterAnySchema | Right::AlterAnyUser | Right::AlterAnyRole);
        match self.right {
            Right::Alter => match self.on {
                On::Database => creates || alters_any || right == Right::Checkpoint,
                _ => right == Right::CreateSequence,
            },
            Right::AlterAnySchema => {
                *on != On::Database && matches!(right, Right::Alter | Right::CreateSequence)
            }
            _ => false,
        }
    }
}

impl Rights {
    /// Returns the rights of a login, by what the database has stored.
    pub(crate) fn of(database: &str, who: &Who, stored: Stored) -> Rights {
        let sid = who.sid.as_ref().filter(|sid| !sid.is_empty());
        let own = stored.principals.iter().find(|known| {
            !known.is_role && known.sid.is_some() && known.sid.as_ref() == sid && sid.is_some()
        });
        let all = who.sysadmin || own.is_some_and(|own| own.id == DBO);
        let user = match own {
            _ if all => Some((DBO, "dbo".to_owned())),
            Some(own) => Some((own.id, own.name.clone())),
            None => Some((GUEST, "guest".to_owned())),
        };
        let database = database.to_owned();
        let mut rights = Rights { database, user, all, roles: Vec::new(), rules: vec![], stored };
        if all {
            rights.roles = vec![DB_OWNER, PUBLIC];
            return rights;
        }
        let id = rights.user.as_ref().map_or(GUEST, |(id, _)| *id);
        rights.roles = rights.stored.roles_of(id);
        rights.roles.push(PUBLIC);
        let roles = &rights.roles;
        let given = |rule: &&Rule| rule.grantee == id || roles.contains(&rule.grantee);
        let mut rules: Vec<Rule> = rights.stored.rules.iter().filter(given).cloned().collect();
        for role in roles {
            let (list, denies) = fixed(*role);
            let rule =
                |right: &Right| Rule { grantee: *role, on: On::Database, right: *right, denies };
            rules.extend(list.iter().map(rule));
        }
        rights.rules = rules;
        // a login that is gone is nobody, not even guest
        if sid.is_none() || !rights.holds(Right::Connect, &On::Database) {
            rights.user = None;
        }
        rights
    }

    /// The rights in one of the server's own databases, which everybody may enter.
    pub(crate) fn of_system(database: &str, who: &Who) -> Rights {
        let mut stored = Stored::fresh();
        if !database.eq_ignore_ascii_case("model") {
            let (grantee, on, right, denies) = (GUEST, On::Database, Right::Connect, false);
            stored.rules.push(Rule { grantee, on, right, denies });
        }
        Rights::of(database, who, stored)
    }

    /// The same rights, with these principals as those that are stored.
    pub(crate) fn knowing(&self, stored: Stored) -> Rights {
        Rights { stored, ..self.clone() }
    }

    /// Returns true if the login has this right on this thing. What is denied beats what is
    /// granted.
    pub(crate) fn holds(&self, right: Right, on: &On) -> bool {
        let decides = |denies: bool| {
            self.rules.iter().any(|rule| rule.denies == denies && rule.covers(right, on))
        };
        self.all || self.user.is_some() && !decides(true) && decides(false)
    }

    /// Returns true for dbo and members of db_owner.
    pub(crate) fn is_owner(&self) -> bool {
        self.all || self.user.is_some() && self.roles.contains(&DB_OWNER)
    }

    /// Returns true if the login may change who is a member of a role. Only an owner of the
    /// database does so with the fixed roles and their members; with others, only who has what any
    /// role could have.
    pub(crate) fn may_change_members(&self, role: &str) -> bool {
        let found = self.stored.named(role).filter(|own| own.is_role);
        let fixed = found.is_some_and(|own| {
            let known = |id: i64| self.stored.by_id(id).is_some_and(Principal::is_fixed);
            own.is_fixed() || self.stored.roles_of(own.id).into_iter().any(known)
        });
        self.is_owner() || !fixed && self.holds(Right::Control, &On::Database)
    }

    /// Returns true if the login may drop a user or role. Nobody but an owner of the database drops
    /// itself, or who is denied something: as guest, or as another user, it would not be denied it.
    pub(crate) fn may_drop(&self, name: &str, is_role: bool) -> bool {
        let right = if is_role { Right::AlterAnyRole } else { Right::AlterAnyUser };
        let found = self.stored.named(name).filter(|own| own.is_role == is_role);
        let bound = found.is_some_and(|own| {
            let mut all = self.stored.roles_of(own.id);
            all.push(own.id);
            let denied =
                self.stored.rules.iter().any(|rule| rule.denies && all.contains(&rule.grantee));
            let is_self = self.user.as_ref().is_some_and(|(id, _)| *id == own.id);
            denied || is_self || all.iter().any(|role| fixed(*role).1)
        });
        self.is_owner() || self.holds(right, &On::Database) && !bound
    }

    /// Returns true if the login may know of everything about the database's principals.
    fn knows_all(&self) -> bool {
        [Right::ViewDefinition, Right::AlterAnyUser, Right::AlterAnyRole]
            .into_iter()
            .any(|right| self.holds(right, &On::Database))
    }

    /// Returns true if the login may know of a principal: those of every database, itself, its
    /// roles.
    pub(crate) fn knows(&self, principal: &Principal) -> bool {
        let own = self.user.as_ref().is_some_and(|(id, _)| *id == principal.id);
        principal.is_fixed() || own || self.roles.contains(&principal.id) || self.knows_all()
    }

    /// Returns true if the user is this principal or a member of it; dbo is a member of all.
    pub(crate) fn is_or_belongs_to(&self, principal: &Principal) -> bool {
        let own = self.user.as_ref().is_some_and(|(id, _)| *id == principal.id);
        self.is_owner() || own || self.roles.contains(&principal.id)
    }

    /// Returns true if the login may write anything in the database, data or definitions.
    pub(crate) fn writes(&self) -> bool {
        let writes = |rule: &Rule| {
            let reads = matches!(
                rule.right,
                Right::Select
                    | Right::References
                    | Right::ViewDefinition
                    | Right::Connect
                    | Right::BackupDatabase
                    | Right::BackupLog
                    | Right::Checkpoint
            );
            let of_type = matches!(rule.on, On::Type(_));
            !rule.denies && !reads && !of_type && self.holds(rule.right, &rule.on)
        };
        self.all || self.rules.iter().any(writes)
    }

    /// Returns true if the login may know that an object exists: it has some right on it. `data` is
    /// false for procedures and types, on which there are no rights to rows.
    pub(crate) fn sees(&self, object: &On, data: bool) -> bool {
        // Rights to rows come first.
        const ANY: [Right; 9] = [
            Right::Select,
            Right::Insert,
            Right::Update,
            Right::Delete,
            Right::Execute,
            Right::References,
            Right::Alter,
            Right::Control,
            Right::ViewDefinition,
        ];
        let hidden =
            self.rules.iter().any(|rule| rule.denies && rule.covers(Right::ViewDefinition, object));
        let any = ANY.into_iter().skip(if data { 0 } else { 4 });
        self.all || !hidden && { any }.any(|right| self.holds(right, object))
    }

    /// Returns true if the login may read the text of an object.
    pub(crate) fn reads_text(&self, object: &On, data: bool) -> bool {
        self.sees(object, data)
            && (self.holds(Right::ViewDefinition, object) || self.holds(Right::Alter, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who() -> Who {
        Who { login: "ann".to_owned(), sid: Some(vec![7]), sysadmin: false }
    }

    fn user(rules: &[(i64, On, Right, bool)], members: &[(i64, i64)]) -> Rights {
        let mut stored = Stored::fresh();
        for (id, name, is_role) in [(5, "ann", false), (6, "clerks", true), (7, "staff", true)] {
            let sid = (!is_role).then(|| vec![7]);
            stored.principals.push(Principal { id, name: name.to_owned(), is_role, sid });
        }
        let connect = (5, On::Database, Right::Connect, false);
        for (grantee, on, right, denies) in rules.iter().chain([&connect]).cloned() {
            stored.rules.push(Rule { grantee, on, right, denies });
        }
        stored.members = members.to_vec();
        Rights::of("app", &who(), stored)
    }

    #[test]
    fn a_fresh_database_lets_nobody_in_but_sysadmins_and_its_owner() {
        assert_eq!(Rights::of("app", &who(), Stored::fresh()).user, None);
        let sa = Who { sysadmin: true, ..who() };
        assert!(Rights::of("app", &sa, Stored::fresh()).holds(Right::Control, &On::Database));
        let mut owned = Stored::fresh();
        owned.principals[1].sid = Some(vec![7]);
        assert!(Rights::of("app", &who(), owned.clone()).holds(Right::Control, &On::Database));
        let gone = Who { sid: None, ..who() };
        assert_eq!(Rights::of("app", &gone, owned).user, None);
    }

    #[test]
    fn a_denial_beats_every_grant_but_those_of_dbo() {
        let t = On::object("t");
        let reader = user(&[], &[(DB_DATAREADER, 5)]);
        assert!(reader.holds(Right::Select, &t) && !reader.holds(Right::Insert, &t));
        let denied = user(&[(5, t.clone(), Right::Select, true)], &[(DB_OWNER, 5)]);
        assert!(!denied.holds(Right::Select, &t) && denied.holds(Right::Select, &On::object("u")));
        let by_role =
            user(&[(7, t.clone(), Right::Control, true)], &[(6, 5), (7, 6), (DB_OWNER, 5)]);
        assert!(!by_role.holds(Right::Update, &t));
        assert!(!user(&[], &[(DB_OWNER, 5), (DB_DENYDATAREADER, 5)]).holds(Right::Select, &t));
    }

    #[test]
    fn rights_on_what_contains_a_thing_count_for_it() {
        let within = On::object("sales.t");
        let rules = [(6, On::schema("Sales"), Right::Select, false)];
        let clerk = user(&rules, &[(6, 5)]);
        assert!(
            clerk.holds(Right::Select, &within) && !clerk.holds(Right::Select, &On::object("t"))
        );
        let public = user(&[(PUBLIC, On::Database, Right::Alter, false)], &[]);
        assert!(public.holds(Right::CreateTable, &On::Database));
        assert!(public.holds(Right::Alter, &within) && !public.holds(Right::Select, &within));
        let ddl = user(&[], &[(DB_DDLADMIN, 5)]);
        assert!(ddl.holds(Right::Alter, &within) && !ddl.holds(Right::Alter, &On::Database));
        assert!(!ddl.holds(Right::Control, &within) && !ddl.holds(Right::Delete, &within));
    }

    #[test]
    fn who_may_not_connect_may_nothing() {
        let rules = [(5, On::Database, Right::Connect, true)];
        let out = user(&rules, &[(DB_DATAREADER, 5)]);
        assert_eq!(out.user, None);
        assert!(!out.holds(Right::Select, &On::object("t")));
    }
}
