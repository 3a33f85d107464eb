//! Operators: written between parentheses, except chains of equal precedence.

use super::error::{QueryError, refused};
use super::expression::Writer;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

impl Writer<'_> {
    pub(super) fn unary(&mut self, op: UnaryOperator, expr: &Expr) -> Result<(), QueryError> {
        match op {
            UnaryOperator::Plus => self.operand(expr),
            UnaryOperator::Not => self.call("not", [expr]),
            UnaryOperator::Minus if matches!(expr, Expr::Value(_)) => {
                self.out.push('-');
                self.expression(expr)
            }
            UnaryOperator::Minus => self.call("negate", [expr]),
            other => Err(refused(&format!("the operator {other}"))),
        }
    }

    /// Writes a chain of operators of one precedence without parentheses: long sums are read from
    /// the left by every parser, and parentheses would nest too deep.
    pub(super) fn binary(&mut self, expr: &Expr) -> Result<(), QueryError> {
        let mut first = expr;
        let mut level_of_chain = None;
        let mut rest = Vec::new();
        while let Expr::BinaryOp { left, op, right } = first {
            let (sign, level) = operator(op)?;
            if *level_of_chain.get_or_insert(level) != level {
                break;
            }
            rest.push((sign, right.as_ref()));
            first = left;
            if level == COMPARISON {
                break;
            }
        }
        // The tree is as deep as the chain is long; one level of it is this expression's own.
        let depth = self.depth;
        self.descend(rest.len().saturating_sub(1))?;
        self.operand(first)?;
        for (sign, right) in rest.into_iter().rev() {
            self.out.push_str(&format!(" {sign} "));
            self.operand(right)?;
            self.depth = depth.max(self.depth - 1);
        }
        Ok(())
    }
}

const COMPARISON: u8 = 2;

/// Spelling and precedence of an operator.
fn operator(op: &BinaryOperator) -> Result<(&'static str, u8), QueryError> {
    Ok(match op {
        BinaryOperator::Or => ("OR", 0),
        BinaryOperator::And => ("AND", 1),
        BinaryOperator::Eq => ("=", COMPARISON),
        BinaryOperator::NotEq => ("!=", COMPARISON),
        BinaryOperator::Lt => ("<", COMPARISON),
        BinaryOperator::LtEq => ("<=", COMPARISON),
        BinaryOperator::Gt => (">", COMPARISON),
        BinaryOperator::GtEq => (">=", COMPARISON),
        BinaryOperator::StringConcat => ("||", 3),
        BinaryOperator::Plus => ("+", 4),
        BinaryOperator::Minus => ("-", 4),
        BinaryOperator::Multiply => ("*", 5),
        BinaryOperator::Divide => ("/", 5),
        BinaryOperator::Modulo => ("%", 5),
        other => return Err(refused(&format!("the operator {other}"))),
    })
}
