//! Tests of properties whose events arrive in any order.

mod device_properties;
mod identities;

use super::registers::{Registers, Stamp};
use proptest::prelude::*;
use serde_json::value::RawValue;
use uuid::Uuid;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Set(u8),
    Once(u8),
    Unset,
}

/// Writes as key, time and operation. `x` is never set once, `y` never unset.
fn operations() -> impl Strategy<Value = Vec<(&'static str, i64, Operation)>> {
    let of_x = prop_oneof![(0..9_u8).prop_map(Operation::Set), Just(Operation::Unset)];
    let of_y = prop_oneof![
        (0..9_u8).prop_map(Operation::Set),
        (0..9_u8).prop_map(Operation::Once)
    ];
    let operation = prop_oneof![(Just("x"), 0..9_i64, of_x), (Just("y"), 0..9_i64, of_y),];
    prop::collection::vec(operation, 0..12)
}

fn raw(value: u8) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn put(
    registers: &mut Registers,
    number: usize,
    (key, at, operation): (&str, i64, Operation),
) -> bool {
    let by = Uuid::from_u128(number as u128);
    let stamp = Stamp { at, by };
    match operation {
        Operation::Set(value) => registers.set(key, stamp, &raw(value)),
        Operation::Once(value) => registers.set_once(key, stamp, &raw(value)),
        Operation::Unset => registers.unset(key, stamp),
    }
}

proptest! {
    #[test]
    fn properties_do_not_depend_on_the_order_of_arrival(
        operations in operations(),
        shuffled in any::<prop::sample::Index>(),
    ) {
        let numbered: Vec<_> = operations.iter().copied().enumerate().collect();
        let mut turned = numbered.clone();
        turned.rotate_left(if operations.is_empty() { 0 } else { shuffled.index(operations.len()) });
        let (mut one, mut other, mut twice) =
            (Registers::default(), Registers::default(), Registers::default());
        for (number, operation) in &numbered {
            put(&mut one, *number, *operation);
            put(&mut twice, *number, *operation);
            prop_assert!(!put(&mut twice, *number, *operation), "the same again changes nothing");
        }
        for (number, operation) in turned.iter().rev() {
            put(&mut other, *number, *operation);
        }
        prop_assert_eq!(one.to_json(), other.to_json());
        prop_assert_eq!(one.to_json(), twice.to_json());
        let read = Registers::parse(&one.to_text()).unwrap();
        prop_assert_eq!(read.to_text(), one.to_text());
    }

    #[test]
    fn merging_two_halves_equals_applying_all_writes(operations in operations(), cut in any::<prop::sample::Index>()) {
        let cut = if operations.is_empty() { 0 } else { cut.index(operations.len()) };
        let (mut whole, mut one, mut other) =
            (Registers::default(), Registers::default(), Registers::default());
        for (number, operation) in operations.into_iter().enumerate() {
            put(&mut whole, number, operation);
            put(if number < cut { &mut one } else { &mut other }, number, operation);
        }
        one.merge(other);
        prop_assert_eq!(whole.to_json(), one.to_json());
    }
}

#[test]
fn a_key_has_the_value_that_events_in_time_order_would_leave() {
    use Operation::{Once, Set, Unset};
    let table: [(&[(i64, Operation)], &str); 8] = [
        (&[(1, Once(1)), (2, Once(2))], r#"{"k":1}"#),
        (&[(2, Once(2)), (1, Once(1))], r#"{"k":1}"#),
        (&[(1, Set(1)), (2, Once(2))], r#"{"k":1}"#),
        (&[(1, Once(1)), (2, Set(2))], r#"{"k":2}"#),
        (&[(1, Once(1)), (2, Unset)], "{}"),
        (&[(1, Once(1)), (2, Unset), (3, Once(3))], r#"{"k":3}"#),
        (&[(1, Set(1)), (3, Once(3)), (2, Unset)], r#"{"k":3}"#),
        (&[(3, Unset), (1, Set(1)), (2, Once(2))], "{}"),
    ];
    for (operations, expected) in table {
        let mut registers = Registers::default();
        for (number, (at, operation)) in operations.iter().enumerate() {
            put(&mut registers, number, ("k", *at, *operation));
        }
        assert_eq!(registers.to_json(), expected, "{operations:?}");
    }
}

#[test]
fn null_is_stored_and_numbers_keep_their_digits() {
    let mut registers = Registers::default();
    let by = Uuid::nil();
    for (key, value) in [("a", "null"), ("b", "1.50e10"), ("\u{1}\"", "0.10")] {
        let value = RawValue::from_string(value.to_owned()).unwrap();
        registers.set(key, Stamp { at: 1, by }, &value);
    }
    let read = Registers::parse(&registers.to_text()).unwrap();
    assert_eq!(
        read.to_json(),
        "{\"\\u0001\\\"\":0.10,\"a\":null,\"b\":1.50e10}"
    );
    assert!(read.has("a"));
}

#[test]
fn an_event_is_stored_once_however_many_keys_it_wrote() {
    let mut registers = Registers::default();
    let (by, value) = (Uuid::nil(), raw(1));
    for key in ["a", "b", "c"] {
        registers.set(key, Stamp { at: 5, by }, &value);
    }
    registers.unset("b", Stamp { at: 6, by });
    registers.set_once("d", Stamp { at: 5, by }, &value);
    let text = registers.to_text();
    let expected = format!(
        r#"{{"s":[[5,"{by}"],[6,"{by}"]],"w":{{"a":[0,1],"b":[1],"c":[0,1]}},"o":{{"d":[0,1]}}}}"#
    );
    assert_eq!(text, expected);
    assert_eq!(Registers::parse(&text).unwrap().to_text(), text);
    assert!(Registers::parse(r#"{"s":[],"w":{"a":[0,1]}}"#).is_err());
}
