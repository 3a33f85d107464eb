//! What stands in a SELECT: names, values, operators, calls.

use super::names::is_function;
use super::{QueryError, refused};
use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, DateTimeField,
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, Interval, ObjectNamePart, Subscript, UnaryOperator, Value,
};

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// What names may stand for.
pub(super) struct Scope<'a> {
    /// What the one table is called.
    pub(super) source: &'a str,
}

impl Scope<'_> {
    /// Looks at an expression and everything in it.
    pub(super) fn check(&self, expr: &Expr) -> Result<(), QueryError> {
        match expr {
            Expr::Identifier(name) => self.check_name(name),
            Expr::CompoundIdentifier(names) => self.check_qualified(names),
            Expr::Value(value) => check_value(&value.value),
            Expr::Nested(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => self.check(inner),
            Expr::UnaryOp { op, expr } => {
                check_unary(*op)?;
                self.check(expr)
            }
            Expr::BinaryOp { left, op, right } => {
                check_binary(op)?;
                self.check_all([left.as_ref(), right.as_ref()])
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => self.check_all([expr.as_ref(), low.as_ref(), high.as_ref()]),
            Expr::Like {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            }
            | Expr::ILike {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.check_all([expr.as_ref(), pattern.as_ref()]),
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                // A name in the list would be the name of a table.
                list.iter().try_for_each(check_constant)?;
                self.check(expr)
            }
            Expr::Tuple(items) => self.check_all(items),
            Expr::Array(Array { elem, named: _ }) => self.check_all(elem),
            Expr::Function(function) => self.check_call(function),
            other => self.check_special(other),
        }
    }

    /// What has a syntax of its own.
    fn check_special(&self, expr: &Expr) -> Result<(), QueryError> {
        match expr {
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                self.check_all(operand.as_deref())?;
                for CaseWhen { condition, result } in conditions {
                    self.check_all([condition, result])?;
                }
                self.check_all(else_result.as_deref())
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                check_type(data_type)?;
                self.check(expr)
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                access_chain
                    .iter()
                    .try_for_each(|it| self.check_access(it))?;
                self.check(root)
            }
            Expr::Interval(Interval {
                value,
                leading_field: Some(field),
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }) => {
                check_interval(field)?;
                self.check(value)
            }
            Expr::Ceil {
                expr,
                field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            }
            | Expr::Floor {
                expr,
                field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            } => self.check(expr),
            Expr::Position { expr, r#in } => self.check_all([expr.as_ref(), r#in.as_ref()]),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                self.check(expr)?;
                self.check_all(substring_from.as_deref())?;
                self.check_all(substring_for.as_deref())
            }
            Expr::Trim {
                trim_where: _,
                trim_what: None,
                expr,
                trim_characters: None,
            } => self.check(expr),
            other => Err(refused(&format!("this: {other}"))),
        }
    }

    fn check_access(&self, access: &AccessExpr) -> Result<(), QueryError> {
        match access {
            AccessExpr::Subscript(Subscript::Index { index }) => self.check(index),
            _ => Err(refused("fields of fields")),
        }
    }

    fn check_all<'e>(&self, parts: impl IntoIterator<Item = &'e Expr>) -> Result<(), QueryError> {
        parts.into_iter().try_for_each(|part| self.check(part))
    }

    /// A column or an alias.
    pub(super) fn check_name(&self, name: &Ident) -> Result<(), QueryError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$ .-".contains(&byte);
        let text = &name.value;
        // Virtual columns, which tell of the server's files, begin with an underscore.
        let refuse = text.is_empty()
            || text.len() > NAME_BYTES_MAX
            || text.starts_with('_')
            || !text.bytes().all(is_plain);
        if refuse {
            return Err(refused(&format!("the name {name}")));
        }
        Ok(())
    }

    /// A column of the one table.
    fn check_qualified(&self, names: &[Ident]) -> Result<(), QueryError> {
        match names {
            [source, column] if source.value == self.source => self.check_name(column),
            _ => Err(refused("names of more than the one table and its columns")),
        }
    }

    fn check_call(&self, call: &Function) -> Result<(), QueryError> {
        // Without `..`: what a newer parser adds must be decided on.
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = call;
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Err(refused(&format!("the function {name}")));
        };
        if ident.quote_style.is_some() || !is_function(&ident.value) {
            return Err(refused(&format!("the function {name}")));
        }
        let is_plain = !uses_odbc_syntax
            && within_group.is_empty()
            && filter.is_none()
            && null_treatment.is_none()
            && over.is_none();
        if !is_plain {
            return Err(refused("FILTER, OVER and the like"));
        }
        match parameters {
            FunctionArguments::None => {}
            FunctionArguments::List(list) => {
                for parameter in arguments(list)? {
                    check_constant(parameter)?;
                }
            }
            FunctionArguments::Subquery(_) => return Err(refused("subqueries")),
        }
        match args {
            FunctionArguments::List(list) => self.check_all(arguments(list)?),
            _ => Err(refused("functions without parentheses, or subqueries")),
        }
    }
}

/// The arguments of a call that are expressions; `*`, as in `count(*)`, is none.
fn arguments(list: &FunctionArgumentList) -> Result<Vec<&Expr>, QueryError> {
    let FunctionArgumentList {
        duplicate_treatment,
        args,
        clauses,
    } = list;
    let is_plain = clauses.is_empty()
        && matches!(
            duplicate_treatment,
            None | Some(DuplicateTreatment::Distinct)
        );
    if !is_plain {
        return Err(refused("clauses within the arguments of a function"));
    }
    let mut expressions = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => expressions.push(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if args.len() == 1 => {}
            _ => return Err(refused("arguments with names")),
        }
    }
    Ok(expressions)
}

fn check_value(value: &Value) -> Result<(), QueryError> {
    match value {
        Value::Number(_, false) | Value::Boolean(_) | Value::Null => Ok(()),
        // The parser takes backslashes for escapes and writes texts without them, so what it
        // writes would be another text for ClickHouse, or a way out of it.
        Value::SingleQuotedString(text) if !text.contains('\\') => Ok(()),
        Value::SingleQuotedString(_) => Err(refused("backslashes in texts")),
        other => Err(refused(&format!("the value {other}"))),
    }
}

/// A value that is written out.
fn check_constant(expr: &Expr) -> Result<(), QueryError> {
    match expr {
        Expr::Value(value) => check_value(&value.value),
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } => check_constant(expr),
        Expr::Tuple(items) => items.iter().try_for_each(check_constant),
        other => Err(refused(&format!(
            "{other} where only values may be written"
        ))),
    }
}

fn check_unary(op: UnaryOperator) -> Result<(), QueryError> {
    match op {
        UnaryOperator::Plus | UnaryOperator::Minus | UnaryOperator::Not => Ok(()),
        other => Err(refused(&format!("the operator {other}"))),
    }
}

fn check_binary(op: &BinaryOperator) -> Result<(), QueryError> {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::StringConcat
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or => Ok(()),
        other => Err(refused(&format!("the operator {other}"))),
    }
}

fn check_interval(field: &DateTimeField) -> Result<(), QueryError> {
    match field {
        DateTimeField::Year
        | DateTimeField::Quarter
        | DateTimeField::Month
        | DateTimeField::Week(None)
        | DateTimeField::Day
        | DateTimeField::Hour
        | DateTimeField::Minute
        | DateTimeField::Second => Ok(()),
        other => Err(refused(&format!("the unit {other}"))),
    }
}

fn check_type(data_type: &DataType) -> Result<(), QueryError> {
    match data_type {
        DataType::Nullable(inner) | DataType::LowCardinality(inner) => check_type(inner),
        DataType::Uuid
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Int8(None)
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Bool
        | DataType::Boolean
        | DataType::Date
        | DataType::Date32
        | DataType::Datetime(None)
        | DataType::Datetime64(_, None)
        | DataType::String(None) => Ok(()),
        other => Err(refused(&format!("the type {other}"))),
    }
}
