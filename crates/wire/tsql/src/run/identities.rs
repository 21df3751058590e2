//! The identity values that a session has given last.

/// The last identity value of a session, and of the running scope: a procedure, a text or a trigger
/// has one of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Identities {
    last: Option<i64>,
    of_scope: Option<i64>,
}

impl Identities {
    /// Returns `@@IDENTITY`.
    pub(super) fn last(self) -> Option<i64> {
        self.last
    }

    /// Returns `SCOPE_IDENTITY()`.
    pub(super) fn of_scope(self) -> Option<i64> {
        self.of_scope
    }

    /// Notes the last value of a statement, if it gave one.
    pub(super) fn note(&mut self, last: Option<i64>) {
        if last.is_some() {
            (self.last, self.of_scope) = (last, last);
        }
    }

    /// Begins a scope; returns what [`Identities::end_scope`] takes.
    pub(super) fn begin_scope(&mut self) -> Option<i64> {
        self.of_scope.take()
    }

    pub(super) fn end_scope(&mut self, outer: Option<i64>) {
        self.of_scope = outer;
    }
}

#[cfg(test)]
mod tests {
    use super::Identities;

    #[test]
    fn a_scope_within_changes_the_last_value_alone() {
        let mut own = Identities::default();
        own.note(Some(7));
        let outer = own.begin_scope();
        assert_eq!((own.last(), own.of_scope()), (Some(7), None));
        own.note(Some(8));
        own.note(None);
        assert_eq!((own.last(), own.of_scope()), (Some(8), Some(8)));
        own.end_scope(outer);
        assert_eq!((own.last(), own.of_scope()), (Some(8), Some(7)));
    }
}
