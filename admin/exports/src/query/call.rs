//! Function calls in customers' queries.

use super::error::{QueryError, refused};
use super::expression::Writer;
use super::names::{FunctionKind, function};
use super::pattern::{PATTERN_INDEX, pattern_nodes};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, ObjectNamePart,
};

impl Writer<'_> {
    /// Writes a call of an allowed function.
    pub(super) fn function(&mut self, call: &Function) -> Result<(), QueryError> {
        // Without `..`: somebody has to decide on fields that a newer parser adds.
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
        let unknown = || refused(&format!("the function {name}"));
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Err(unknown());
        };
        let kind = function(&ident.value).ok_or_else(unknown)?;
        if ident.quote_style.is_some() {
            return Err(unknown());
        }
        let is_plain = !uses_odbc_syntax
            && within_group.is_empty()
            && filter.is_none()
            && null_treatment.is_none()
            && over.is_none();
        if !is_plain {
            return Err(refused("FILTER, OVER and the like"));
        }
        self.has_aggregates |= kind == FunctionKind::Aggregate;
        self.out.push_str(&ident.value);
        match parameters {
            FunctionArguments::None => {}
            FunctionArguments::List(list) => {
                let (is_distinct, parameters) = arguments(list, false)?;
                if is_distinct || parameters.is_empty() {
                    return Err(unknown());
                }
                self.out.push('(');
                self.separated(parameters, Self::constant)?;
                self.out.push(')');
            }
            FunctionArguments::Subquery(_) => return Err(refused("subqueries")),
        }
        let FunctionArguments::List(list) = args else {
            return Err(refused("functions without parentheses, or subqueries"));
        };
        let is_count = ident.value.eq_ignore_ascii_case("count");
        let (is_distinct, arguments) = arguments(list, is_count)?;
        self.out
            .push_str(if is_distinct { "(DISTINCT " } else { "(" });
        self.arguments(&ident.value, arguments)?;
        self.out.push(')');
        Ok(())
    }

    /// Writes the arguments of a call, and counts the size of a pattern among them.
    pub(super) fn arguments<'e>(
        &mut self,
        function: &str,
        arguments: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<(), QueryError> {
        let mut index = 0;
        self.separated(arguments, |writer, argument| {
            if index == PATTERN_INDEX {
                let nodes = pattern_nodes(function, argument)?;
                writer.nodes = writer.nodes.saturating_add(nodes);
            }
            index += 1;
            writer.expression(argument)
        })
    }
}

/// Returns whether a call has DISTINCT, and its arguments.
fn arguments(
    list: &FunctionArgumentList,
    is_count: bool,
) -> Result<(bool, Vec<&Expr>), QueryError> {
    let FunctionArgumentList {
        duplicate_treatment,
        args,
        clauses,
    } = list;
    let is_distinct = match duplicate_treatment {
        None => false,
        Some(DuplicateTreatment::Distinct) => true,
        Some(DuplicateTreatment::All) => return Err(refused("ALL in the arguments of a function")),
    };
    if !clauses.is_empty() {
        return Err(refused("clauses within the arguments of a function"));
    }
    // `count(*)` is the same as `count()`.
    if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = args.as_slice()
        && is_count
        && !is_distinct
    {
        return Ok((false, Vec::new()));
    }
    let expressions = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        _ => Err(refused("arguments with names or patterns")),
    });
    Ok((is_distinct, expressions.collect::<Result<_, _>>()?))
}
