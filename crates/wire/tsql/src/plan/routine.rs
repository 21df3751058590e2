//! Scalar functions of a database, bound: their statements over variables.

use std::sync::{Arc, OnceLock, Weak};

use super::scalar::Scalar;

/// A scalar function.
#[derive(Debug)]
pub(crate) struct Routine {
    /// The number of its parameters, which are its first variables.
    pub(crate) params: usize,
    /// The number of its variables.
    pub(crate) variables: usize,
    /// Its value is NULL if an argument is.
    pub(crate) null_on_null: bool,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Set(usize, Scalar),
    If(Scalar, Vec<Step>, Vec<Step>),
    While(Scalar, Vec<Step>),
    Break,
    Continue,
    Return(Scalar),
}

/// A call of a scalar function, whose routine is known once it is bound: it may call itself.
#[derive(Debug, Clone)]
pub(crate) enum Callee {
    /// A call that keeps the routine.
    Own(Arc<OnceLock<Routine>>),
    /// A call within the routine, by itself or by a function that it calls.
    Within(Weak<OnceLock<Routine>>),
}

impl PartialEq for Callee {
    /// Equals its copies.
    fn eq(&self, other: &Callee) -> bool {
        match (self, other) {
            (Callee::Own(a), Callee::Own(b)) => Arc::ptr_eq(a, b),
            (Callee::Within(a), Callee::Within(b)) => Weak::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A call of a scalar function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Invoked {
    pub(crate) callee: Callee,
    /// The call of a statement: behind its arguments are the values that the session gives to all
    /// functions which it reaches, GETDATE() among them. They read those as arguments of a kernel.
    pub(crate) outermost: bool,
    pub(crate) args: Vec<Scalar>,
}
