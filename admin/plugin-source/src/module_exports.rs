//! Exports of a JavaScript or TypeScript module, as ES module or CommonJS.
//!
//! tree-sitter goes on after syntax errors. Nesting does not overflow its stack, ambiguity does:
//! its `stack_node_release` calls itself for each link of a parse that went several ways at once.

use super::syntax_error::SyntaxError;
use tree_sitter::{Language, Node, Parser, Tree};

/// The exports of one module.
#[derive(Debug, Default)]
pub(super) struct Exports {
    exported: Vec<(String, Value)>,
    /// Top-level variables, which exports may name.
    variables: Vec<(String, Value)>,
}

/// A value, as far as exports need it.
#[derive(Clone, Debug)]
enum Value {
    /// An object, with its members.
    Object(Vec<(String, Value)>),
    /// A variable.
    Named(String),
    /// Anything else.
    Other,
}

impl Exports {
    /// Returns true if the module exports this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.exported.iter().any(|(exported, _)| exported == name)
    }

    /// Names of the members of an exported object; none if it is no object.
    pub(super) fn members_of(&self, name: &str) -> Vec<String> {
        let mut value = find(&self.exported, name);
        if let Some(Value::Named(variable)) = value {
            value = find(&self.variables, variable);
        }
        match value {
            Some(Value::Object(members)) => members.iter().map(|(name, _)| name.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

fn find<'a>(among: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    // The last one counts: compiled modules first export `void 0`.
    let found = among.iter().rev().find(|(known, _)| known == name);
    found.map(|(_, value)| value)
}

/// Parses a module; returns its exports and its first syntax error.
pub(super) fn exports_of(source: &str) -> (Exports, Option<SyntaxError>) {
    let mut reader = Reader {
        source,
        found: Exports::default(),
    };
    // TypeScript includes JavaScript.
    let Some(tree) = parse(source, &tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into()) else {
        return (reader.found, None);
    };
    reader.module(tree.root_node());
    (reader.found, SyntaxError::first_in(&tree, source))
}

/// Returns true if a text has no syntax error in a language with tags.
pub(super) fn is_tsx(source: &str) -> bool {
    let tree = parse(source, &tree_sitter_typescript::LANGUAGE_TSX.into());
    tree.is_some_and(|tree| !tree.root_node().has_error())
}

fn parse(source: &str, language: &Language) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    parser.parse(source, None)
}

struct Reader<'a> {
    source: &'a str,
    found: Exports,
}

impl<'a> Reader<'a> {
    fn module(&mut self, root: Node<'_>) {
        for statement in children(root) {
            match statement.kind() {
                "export_statement" => self.export(statement),
                "expression_statement" => self.expressions(statement),
                _ => {
                    let variables = self.variables(statement);
                    self.found.variables.extend(variables);
                }
            }
        }
    }

    /// `export const a = …`, `export function b() {}`, `export { c as d }`, `export default {…}`.
    fn export(&mut self, statement: Node<'_>) {
        if let Some(declaration) = statement.child_by_field_name("declaration") {
            if let Some(name) = declaration.child_by_field_name("name") {
                self.add(self.text(name), Value::Other);
            }
            let variables = self.variables(declaration);
            self.found.exported.extend(variables);
        }
        if let Some(default) = statement.child_by_field_name("value") {
            self.add_members(default);
        }
        for clause in children(statement).filter(|child| child.kind() == "export_clause") {
            for specifier in children(clause) {
                if let Some(name) = specifier.child_by_field_name("name") {
                    let alias = specifier.child_by_field_name("alias").unwrap_or(name);
                    self.add(self.name(alias), Value::Named(self.text(name).to_owned()));
                }
            }
        }
    }

    fn variables(&self, declaration: Node<'_>) -> Vec<(String, Value)> {
        let declarators =
            children(declaration).filter(|child| child.kind() == "variable_declarator");
        let variable = |declarator: Node<'_>| {
            let name = self
                .text(declarator.child_by_field_name("name")?)
                .to_owned();
            let value = declarator.child_by_field_name("value");
            Some((name, value.map_or(Value::Other, |value| self.value(value))))
        };
        declarators.filter_map(variable).collect()
    }

    /// `module.exports = {…}`, `exports.a = …`, `Object.defineProperty(exports, "a", …)`, and
    /// several of them joined by commas or equals signs.
    fn expressions(&mut self, statement: Node<'_>) {
        let mut waiting: Vec<Node<'_>> = children(statement).collect();
        while let Some(expression) = waiting.pop() {
            match expression.kind() {
                "sequence_expression" | "parenthesized_expression" => {
                    waiting.extend(children(expression));
                }
                "assignment_expression" => {
                    let left = expression.child_by_field_name("left");
                    let right = expression.child_by_field_name("right");
                    if let (Some(left), Some(right)) = (left, right) {
                        self.assignment(left, right);
                        waiting.push(right);
                    }
                }
                "call_expression" => self.call(expression),
                _ => {}
            }
        }
    }

    fn assignment(&mut self, left: Node<'_>, right: Node<'_>) {
        let path = self.text(left);
        let path = path.strip_prefix("module.").unwrap_or(path);
        if matches!(path, "exports" | "exports.default") {
            self.add_members(right);
        } else if let Some(name) = path.strip_prefix("exports.") {
            self.add(name, self.value(right));
        }
    }

    fn call(&mut self, call: Node<'_>) {
        let function = call.child_by_field_name("function");
        let arguments = call.child_by_field_name("arguments");
        let (Some(function), Some(arguments)) = (function, arguments) else {
            return;
        };
        let mut arguments = children(arguments);
        let target = arguments.next().map(|target| self.text(target));
        let (Some("exports" | "module.exports"), Some(second)) = (target, arguments.next()) else {
            return;
        };
        match self.text(function) {
            "Object.defineProperty" => self.add(self.name(second), Value::Other),
            "Object.assign" => self.add_members(second),
            _ => {}
        }
    }

    /// Exports every member of an object.
    fn add_members(&mut self, node: Node<'_>) {
        if let Value::Object(members) = self.value(node) {
            self.found.exported.extend(members);
        }
    }

    fn add(&mut self, name: &str, value: Value) {
        self.found.exported.push((name.to_owned(), value));
    }

    fn value(&self, node: Node<'_>) -> Value {
        match node.kind() {
            "object" => Value::Object(
                children(node)
                    .filter_map(|member| self.member(member))
                    .collect(),
            ),
            "identifier" => Value::Named(self.text(node).to_owned()),
            _ => Value::Other,
        }
    }

    /// Returns a member of an object, with its own members one level deep.
    fn member(&self, member: Node<'_>) -> Option<(String, Value)> {
        match member.kind() {
            "pair" => {
                let name = self.name(member.child_by_field_name("key")?).to_owned();
                let value = member.child_by_field_name("value")?;
                let value = match value.kind() {
                    "object" => Value::Object(
                        children(value)
                            .filter_map(|inner| self.member_name(inner))
                            .collect(),
                    ),
                    "identifier" => Value::Named(self.text(value).to_owned()),
                    _ => Value::Other,
                };
                Some((name, value))
            }
            "shorthand_property_identifier" => {
                let name = self.text(member).to_owned();
                Some((name.clone(), Value::Named(name)))
            }
            _ => self.member_name(member),
        }
    }

    fn member_name(&self, member: Node<'_>) -> Option<(String, Value)> {
        let name = match member.kind() {
            "pair" => member.child_by_field_name("key")?,
            "method_definition" => member.child_by_field_name("name")?,
            "shorthand_property_identifier" => member,
            _ => return None,
        };
        Some((self.name(name).to_owned(), Value::Other))
    }

    /// The name that an identifier or a string stands for.
    fn name(&self, node: Node<'_>) -> &'a str {
        self.text(node).trim_matches(['"', '\''])
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }
}

fn children(node: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    // By a cursor: looking up a child by its number takes time in proportion to the number.
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
    children.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_exporting_is_recognized() {
        let table = [
            ("export function a() {}", &["a"][..]),
            ("export async function* a(x: number): Promise<T> {}", &["a"]),
            ("export const a = 1, b = () => {}", &["a", "b"]),
            (
                "function f() {} export { f as a, f as 'b', f }",
                &["a", "b", "f"],
            ),
            ("export { a } from './elsewhere'", &["a"]),
            ("export default { a, b() {}, 'c': 1 }", &["a", "b", "c"]),
            (
                "module.exports = { a, b: function () {}, async c() {} }",
                &["a", "b", "c"],
            ),
            (
                "exports.a = exports.b = void 0; module.exports.c = 1",
                &["a", "b", "c"],
            ),
            ("(exports.a = 1, exports.b = 2);", &["a", "b"]),
            ("Object.defineProperty(exports, 'a', { value: 1 })", &["a"]),
            ("Object.assign(module.exports, { a, b })", &["a", "b"]),
            (
                "function a() {} const b = { c: 1 }; x.exports = { d: 1 }",
                &[],
            ),
            ("if (x) { exports.a = 1 } // only the top level counts", &[]),
            ("/* export function a() {} */ 'exports.a = 1'", &[]),
            ("export class a {} export type b = string", &["a", "b"]),
            ("", &[]),
        ];
        for (source, expected) in table {
            let (exports, _) = exports_of(source);
            for name in ["a", "b", "c", "d", "f"] {
                assert_eq!(
                    exports.has(name),
                    expected.contains(&name),
                    "{name} of {source}"
                );
            }
        }
    }

    #[test]
    fn members_are_found_through_variables() {
        let table = [
            "export const jobs = { a: 1, b() {} }",
            "const j = { a, 'b': 2 }; export { j as jobs }",
            "const jobs = { a, b }; module.exports = { jobs }",
            "const j = { a, b }; module.exports = { jobs: j }",
            "module.exports = { jobs: { a: 1, async b() {} } }",
            "exports.jobs = void 0; const jobs = { a, b }; exports.jobs = jobs;",
        ];
        for source in table {
            assert_eq!(
                exports_of(source).0.members_of("jobs"),
                ["a", "b"],
                "{source}"
            );
        }
        assert!(
            exports_of("export const jobs = []")
                .0
                .members_of("jobs")
                .is_empty()
        );
    }

    #[test]
    fn deeply_nested_sources_are_read_without_a_stack_overflow() {
        for piece in [
            "(", "[", "{a:", "if(1)", "a=>", "exports=", "`${", "\u{0}", "(a,", "(a,b)=>",
        ] {
            let source = format!("x={}", piece.repeat(20_000));
            assert!(!exports_of(&source).0.has("processEvent"), "{piece}");
        }
    }
}
