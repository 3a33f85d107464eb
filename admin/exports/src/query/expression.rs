//! Expressions in a SELECT: checked and rewritten in one walk, so that only checked parts are
//! written.
//!
//! Calls are written as calls, operators between parentheses: the parse decides their precedence,
//! and ClickHouse cannot read it otherwise.

use super::error::{QueryError, refused};
use super::literal::{type_name, unit, value};
use millrace_clickhouse::quoted_name;
use sqlparser::ast::{
    AccessExpr, Array, CaseWhen, CastKind, CeilFloorKind, DateTimeField, Expr, Ident, Interval,
    Subscript, TrimWhereField, UnaryOperator, Value,
};

/// Depth of an expression's tree at most: it is walked, written and dropped by recursive functions,
/// and `1 + 1 + 1` is as deep as it is long.
const TREE_DEPTH_MAX: usize = 200;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// Writer of one query's expressions.
#[derive(Debug, Default)]
pub(super) struct Writer<'a> {
    /// Name of the query's table.
    pub(super) source: &'a str,
    /// Text that has been written.
    pub(super) out: String,
    /// Names of columns and aliases, as often as they were written.
    pub(super) names: Vec<String>,
    /// Number of expressions written, nested ones included.
    pub(super) nodes: u64,
    /// True if any function aggregates rows.
    pub(super) has_aggregates: bool,
    /// Current depth of the walk in the tree.
    pub(super) depth: usize,
}

impl Writer<'_> {
    /// Writes an expression and everything in it.
    pub(super) fn expression(&mut self, expr: &Expr) -> Result<(), QueryError> {
        self.nodes += 1;
        self.descend(1)?;
        self.of_kind(expr)?;
        self.depth -= 1;
        Ok(())
    }

    /// Descends a number of levels; callers that descend come back up themselves.
    pub(super) fn descend(&mut self, levels: usize) -> Result<(), QueryError> {
        self.depth += levels;
        if self.depth > TREE_DEPTH_MAX {
            return Err(refused("sums that long or expressions that deep"));
        }
        Ok(())
    }

    fn of_kind(&mut self, expr: &Expr) -> Result<(), QueryError> {
        match expr {
            Expr::Identifier(name) => {
                let written = checked_name(name)?;
                self.out.push_str(&written);
                self.names.push(name.value.clone());
                Ok(())
            }
            Expr::CompoundIdentifier(names) => self.qualified(names),
            Expr::Value(literal) => self.literal(&literal.value),
            Expr::Nested(inner) => self.operand(inner),
            Expr::IsNull(inner) => self.call("isNull", [inner.as_ref()]),
            Expr::IsNotNull(inner) => self.call("isNotNull", [inner.as_ref()]),
            Expr::IsTrue(inner) => self.is(inner, " IS TRUE"),
            Expr::IsNotTrue(inner) => self.is(inner, " IS NOT TRUE"),
            Expr::IsFalse(inner) => self.is(inner, " IS FALSE"),
            Expr::IsNotFalse(inner) => self.is(inner, " IS NOT FALSE"),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::BinaryOp { .. } => self.binary(expr),
            Expr::Tuple(items) => self.call("tuple", items),
            Expr::Array(Array { elem, named: _ }) => self.call("array", elem),
            Expr::Function(function) => self.function(function),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                self.operand(expr)?;
                self.out
                    .push_str(not(*negated, " NOT BETWEEN ", " BETWEEN "));
                self.operand(low)?;
                self.out.push_str(" AND ");
                self.operand(high)
            }
            Expr::InList {
                expr,
                list,
                negated,
            } if !list.is_empty() => {
                self.operand(expr)?;
                self.out.push_str(not(*negated, " NOT IN (", " IN ("));
                // ClickHouse would read a name in the list as the name of a table.
                self.separated(list, Self::constant)?;
                self.out.push(')');
                Ok(())
            }
            other => self.special_syntax(other),
        }
    }

    /// Writes an expression with a syntax of its own.
    fn special_syntax(&mut self, expr: &Expr) -> Result<(), QueryError> {
        match expr {
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.call(not(*negated, "notLike", "like"), [expr.as_ref(), pattern]),
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.call(not(*negated, "notILike", "ilike"), [expr.as_ref(), pattern]),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => self.case(operand.as_deref(), conditions, else_result.as_deref()),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                self.out.push_str("CAST(");
                self.expression(expr)?;
                self.out
                    .push_str(&format!(", '{}')", type_name(data_type)?));
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.element(root, access_chain),
            Expr::Interval(Interval {
                value,
                leading_field: Some(field),
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }) => {
                self.out.push_str("INTERVAL ");
                self.operand(value)?;
                self.out.push(' ');
                self.out.push_str(unit(field)?);
                Ok(())
            }
            other => self.call_syntax(other),
        }
    }

    /// Writes an expression that could have been written as a call.
    fn call_syntax(&mut self, expr: &Expr) -> Result<(), QueryError> {
        const PLAIN: CeilFloorKind = CeilFloorKind::DateTimeField(DateTimeField::NoDateTime);
        match expr {
            Expr::Ceil { expr, field } if *field == PLAIN => self.call("ceil", [expr.as_ref()]),
            Expr::Floor { expr, field } if *field == PLAIN => self.call("floor", [expr.as_ref()]),
            Expr::Position { expr, r#in } => self.call("position", [r#in.as_ref(), expr]),
            Expr::Substring {
                expr,
                substring_from: Some(from),
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let length = substring_for.as_deref();
                let arguments = [expr.as_ref(), from].into_iter().chain(length);
                self.call("substring", arguments)
            }
            Expr::Trim {
                trim_where,
                trim_what: None,
                expr,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "trimBoth",
                    Some(TrimWhereField::Leading) => "trimLeft",
                    Some(TrimWhereField::Trailing) => "trimRight",
                };
                self.call(name, [expr.as_ref()])
            }
            other => Err(refused(&format!("this: {other}"))),
        }
    }

    fn is(&mut self, expr: &Expr, what: &str) -> Result<(), QueryError> {
        self.operand(expr)?;
        self.out.push_str(what);
        Ok(())
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Result<(), QueryError> {
        self.out.push_str("CASE");
        if let Some(operand) = operand {
            self.out.push(' ');
            self.operand(operand)?;
        }
        for CaseWhen { condition, result } in conditions {
            self.out.push_str(" WHEN ");
            self.operand(condition)?;
            self.out.push_str(" THEN ");
            self.operand(result)?;
        }
        if let Some(otherwise) = otherwise {
            self.out.push_str(" ELSE ");
            self.operand(otherwise)?;
        }
        self.out.push_str(" END");
        Ok(())
    }

    /// Writes `root[index]`, and `[index]` of that, and so on.
    fn element(&mut self, root: &Expr, chain: &[AccessExpr]) -> Result<(), QueryError> {
        let Some((last, before)) = chain.split_last() else {
            return self.expression(root);
        };
        let AccessExpr::Subscript(Subscript::Index { index }) = last else {
            return Err(refused("fields of fields"));
        };
        self.nodes += 1;
        self.descend(1)?;
        self.out.push_str("arrayElement(");
        self.element(root, before)?;
        self.depth -= 1;
        self.out.push_str(", ");
        self.expression(index)?;
        self.out.push(')');
        Ok(())
    }

    /// Writes an expression, between parentheses unless it cannot be split by its neighbours.
    pub(super) fn operand(&mut self, expr: &Expr) -> Result<(), QueryError> {
        let is_open = matches!(
            expr,
            Expr::BinaryOp { .. }
                | Expr::UnaryOp { .. }
                | Expr::Between { .. }
                | Expr::InList { .. }
                | Expr::Interval(_)
                | Expr::IsTrue(_)
                | Expr::IsNotTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsNotFalse(_)
        );
        if !is_open {
            return self.expression(expr);
        }
        self.out.push('(');
        self.expression(expr)?;
        self.out.push(')');
        Ok(())
    }

    /// Writes a call of a function of ClickHouse.
    pub(super) fn call<'e>(
        &mut self,
        name: &str,
        arguments: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<(), QueryError> {
        self.out.push_str(name);
        self.out.push('(');
        self.arguments(name, arguments)?;
        self.out.push(')');
        Ok(())
    }

    /// Writes expressions with commas between them.
    pub(super) fn separated<'e>(
        &mut self,
        parts: impl IntoIterator<Item = &'e Expr>,
        mut write: impl FnMut(&mut Self, &Expr) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            write(self, part)?;
        }
        Ok(())
    }

    fn literal(&mut self, literal: &Value) -> Result<(), QueryError> {
        self.out.push_str(&value(literal)?);
        Ok(())
    }

    /// Writes a constant value.
    pub(super) fn constant(&mut self, expr: &Expr) -> Result<(), QueryError> {
        self.nodes += 1;
        match expr {
            Expr::Value(literal) => self.literal(&literal.value)?,
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } if matches!(**expr, Expr::Value(_)) => {
                self.out.push('-');
                self.constant(expr)?;
            }
            Expr::Tuple(items) => {
                self.out.push('(');
                self.separated(items, Self::constant)?;
                self.out.push(')');
            }
            other => {
                let what = format!("{other} where only values may be written");
                return Err(refused(&what));
            }
        }
        Ok(())
    }

    /// Writes a column of the query's table.
    fn qualified(&mut self, names: &[Ident]) -> Result<(), QueryError> {
        match names {
            [source, column] if source.value == self.source => {
                let written = format!("{}.{}", quoted_name(&source.value), checked_name(column)?);
                self.out.push_str(&written);
                Ok(())
            }
            _ => Err(refused("names of more than the one table and its columns")),
        }
    }
}

const fn not(negated: bool, with: &'static str, without: &'static str) -> &'static str {
    if negated { with } else { without }
}

/// Checks the name of a column or an alias, and quotes it with backticks.
pub(super) fn checked_name(name: &Ident) -> Result<String, QueryError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$ .-".contains(&byte);
    let text = &name.value;
    // Virtual columns, which reveal the server's files, begin with an underscore.
    let refuse = text.is_empty()
        || text.len() > NAME_BYTES_MAX
        || text.starts_with('_')
        || !text.bytes().all(is_plain);
    if refuse {
        return Err(refused(&format!("the name {name}")));
    }
    Ok(quoted_name(text))
}
