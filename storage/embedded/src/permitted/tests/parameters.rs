//! Tests of the values of parameters.

use super::policy;

#[test]
fn values_of_parameters_are_checked_where_they_are_read_as_sql() {
    let check = |sql: &str, value: &str| {
        let parameters = [("p".to_owned(), value.to_owned())];
        policy(&[]).check(sql.as_bytes(), &parameters)
    };
    for (sql, value) in [
        ("SELECT a FROM t WHERE event = {p:String}", "file (x)"),
        ("SELECT a FROM t WHERE event = {p:String}", "file"),
        ("SELECT {p:Identifier} FROM t", "url"),
        ("SELECT * FROM format(JSON, {p:String}, '{}')", "a String"),
    ] {
        check(sql, value).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (sql, value) in [
        (
            "SELECT * FROM format(JSON, {p:String}, '{}')",
            "a String DEFAULT file(1)",
        ),
        (
            "SELECT * FROM format(JSON, {p:String}, '{}')",
            "a String DEFAULT fi\\\\x6ce(1)",
        ),
        ("SELECT arrayMap({p:Identifier}, ['a'])", "file"),
        ("SELECT arrayMap({p:Identifier}, ['a'])", "fil\\x65"),
    ] {
        let error = check(sql, value).expect_err(sql);
        assert!(error.text.contains("function file"), "{sql}: {error}");
    }
}
