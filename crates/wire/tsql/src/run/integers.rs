//! Integer expressions and comparisons as flat programs, for counting loops. A program returns
//! nothing if a variable is NULL or the result does not fit; the expression itself then gives SQL
//! Server's result.

use tdekit_wire_tds::{SqlType, Value};

use crate::ast::{BinOp, CmpOp};
use crate::functions::eval::holds;
use crate::plan::scalar::{Node, Scalar};
use crate::value::{Val, arith};

/// Maximum stack depth of a program; taller expressions have no program.
const DEPTH: usize = 8;

#[derive(Debug, Clone, Copy)]
enum Instruction {
    Constant(i64),
    Variable(usize),
    /// Replaces the last two values by one of this type.
    Operator(BinOp, SqlType),
}

/// An integer expression in postfix order.
#[derive(Debug)]
pub(crate) struct Program(Vec<Instruction>);

/// A comparison of two integers.
#[derive(Debug)]
pub(crate) struct Test {
    op: CmpOp,
    left: Program,
    right: Program,
}

fn is_integer(ty: SqlType) -> bool {
    matches!(ty, SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt)
}

/// Returns true if every value of the first type is one of the second.
fn widens(from: SqlType, to: SqlType) -> bool {
    let rank = |ty| match ty {
        SqlType::TinyInt => 1,
        SqlType::SmallInt => 2,
        SqlType::Int => 3,
        SqlType::BigInt => 4,
        _ => 0,
    };
    rank(from) > 0 && rank(from) <= rank(to)
}

impl Program {
    /// Returns the program of an expression; None if it does not consist of integers alone.
    pub(crate) fn of(bound: &Scalar) -> Option<Program> {
        let mut program = Program(Vec::new());
        let deepest = program.add(bound, 0)?;
        (deepest <= DEPTH).then_some(program)
    }

    /// Appends an expression that has `under` values below it; returns the maximum stack depth it
    /// reaches.
    fn add(&mut self, bound: &Scalar, under: usize) -> Option<usize> {
        if !is_integer(bound.ty) {
            return None;
        }
        match &bound.node {
            Node::Const(Value::Int(int)) => self.0.push(Instruction::Constant(*int)),
            Node::Var(slot) => self.0.push(Instruction::Variable(*slot)),
            Node::Convert { inner, style: None, lenient: false } if widens(inner.ty, bound.ty) => {
                return self.add(inner, under);
            }
            Node::Arith(op, left, right) => {
                let first = self.add(left, under)?;
                let second = self.add(right, under + 1)?;
                self.0.push(Instruction::Operator(*op, bound.ty));
                return Some(first.max(second));
            }
            _ => return None,
        }
        Some(under + 1)
    }

    #[inline]
    pub(crate) fn run(&self, vars: &[Val]) -> Option<i64> {
        let mut stack = [0_i64; DEPTH];
        let mut height = 0;
        for instruction in &self.0 {
            match instruction {
                Instruction::Constant(int) => {
                    *stack.get_mut(height)? = *int;
                    height += 1;
                }
                Instruction::Variable(slot) => {
                    let Some(Value::Int(int)) = vars.get(*slot) else { return None };
                    *stack.get_mut(height)? = *int;
                    height += 1;
                }
                Instruction::Operator(op, ty) => {
                    let (left, right) = (height.checked_sub(2)?, height - 1);
                    let value = arith::int(*op, stack[left], *stack.get(right)?, *ty).ok()?;
                    stack[left] = value;
                    height = right;
                }
            }
        }
        stack.first().copied()
    }
}

impl Test {
    /// Returns the program of a condition; None if it is not a comparison of integers.
    pub(crate) fn of(bound: &Scalar) -> Option<Test> {
        let Node::Compare(op, left, right) = &bound.node else { return None };
        let (left, right) = (Program::of(left)?, Program::of(right)?);
        Some(Test { op: *op, left, right })
    }

    #[inline]
    pub(crate) fn run(&self, vars: &[Val]) -> Option<bool> {
        let (left, right) = (self.left.run(vars)?, self.right.run(vars)?);
        Some(holds(self.op, left.cmp(&right)))
    }
}

#[cfg(test)]
mod tests {
    use tdekit_wire_tds::{SqlType, Value};

    use super::{Program, Test};
    use crate::ast::{BinOp, CmpOp};
    use crate::plan::scalar::{Node, Scalar};

    fn variable(slot: usize) -> Scalar {
        Scalar::new(SqlType::Int, true, Node::Var(slot))
    }

    fn number(int: i64) -> Scalar {
        Scalar::constant(SqlType::Int, Value::Int(int))
    }

    fn sum(left: Scalar, right: Scalar) -> Scalar {
        Scalar::new(SqlType::Int, true, Node::Arith(BinOp::Add, Box::new(left), Box::new(right)))
    }

    #[test]
    fn a_program_counts_or_says_nothing() {
        let program = Program::of(&sum(variable(0), number(1))).unwrap();
        assert_eq!(program.run(&[Value::Int(41)]), Some(42));
        assert_eq!(program.run(&[Value::Null]), None);
        assert_eq!(program.run(&[Value::Int(i64::from(i32::MAX))]), None);
        assert_eq!(program.run(&[]), None);
        let text = Scalar::constant(SqlType::Char(1), Value::Text("x".into()));
        assert!(Program::of(&text).is_none());
    }

    #[test]
    fn expressions_that_are_too_tall_have_none() {
        let mut left = number(1);
        let mut right = number(1);
        for _ in 0..20 {
            left = sum(left, number(1));
            right = sum(number(1), right);
        }
        assert_eq!(Program::of(&left).unwrap().run(&[]), Some(21));
        assert!(Program::of(&right).is_none());
    }

    #[test]
    fn comparisons() {
        let node =
            Node::Compare(CmpOp::Lt, Box::new(variable(0)), Box::new(sum(number(2), number(3))));
        let test = Test::of(&Scalar::condition(node)).unwrap();
        assert_eq!(test.run(&[Value::Int(4)]), Some(true));
        assert_eq!(test.run(&[Value::Int(5)]), Some(false));
        assert_eq!(test.run(&[Value::Null]), None);
    }
}
