//! Random changes to JSON bodies.

use crate::attack::hostile::schema_values::odd;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// Highest number of changes to one body.
const CHANGES_MAX: u32 = 4;
/// Highest number of copies of a value.
const COPIES_MAX: usize = 5_000;
/// Levels that a value is nested into.
const LEVELS_MAX: usize = 60;
/// Longest body in bytes, and its greatest depth. The costliest for their bytes are short, and the
/// API refuses what is deeper at once.
const BYTES_MAX: usize = 128 << 10;
const DEPTH_MAX: usize = 150;

/// The body with at least one change; as it is if it would be too large or too deep.
pub(super) fn mutated(body: &Value, rng: &mut StdRng) -> Value {
    let mut changed = body.clone();
    for _ in 0..rng.random_range(1..=CHANGES_MAX) {
        change(&mut changed, rng);
        if depth(&changed) > DEPTH_MAX || bytes(&changed) > BYTES_MAX {
            return body.clone();
        }
    }
    changed
}

/// Changes a value, or one somewhere in it.
fn change(value: &mut Value, rng: &mut StdRng) {
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if count > 0 && rng.random_ratio(3, 4) {
        let at = rng.random_range(0..count);
        let child = match value {
            Value::Array(items) => items.get_mut(at),
            Value::Object(fields) => fields.values_mut().nth(at),
            _ => None,
        };
        if let Some(child) = child {
            change(child, rng);
        }
        return;
    }
    let before = value.take();
    *value = match rng.random_range(0..5) {
        0 => odd(rng),
        1 => repeated(before, rng),
        2 => nested(before, rng),
        3 => wide(&before, rng),
        _ => number(rng),
    };
}

/// Number of copies that fit into a body.
fn copies(value: &Value, rng: &mut StdRng) -> usize {
    let most = BYTES_MAX / (bytes(value) + 1) / 2;
    rng.random_range(1..=most.clamp(1, COPIES_MAX))
}

/// A text or a list several times, or a list of the value.
fn repeated(value: Value, rng: &mut StdRng) -> Value {
    let times = copies(&value, rng);
    match value {
        Value::String(text) => Value::String(text.repeat(times)),
        Value::Array(items) => {
            let all = items.iter().cycle().take(items.len() * times);
            all.cloned().collect()
        }
        value => Value::Array(vec![value; times]),
    }
}

fn nested(value: Value, rng: &mut StdRng) -> Value {
    let levels = rng.random_range(1..=LEVELS_MAX);
    (0..levels).fold(value, |value, _| Value::Array(vec![value]))
}

/// An object with the value under many names.
fn wide(value: &Value, rng: &mut StdRng) -> Value {
    let times = copies(value, rng);
    let fields = (0..times).map(|number| (format!("f{number}"), value.clone()));
    Value::Object(fields.collect())
}

fn number(rng: &mut StdRng) -> Value {
    match rng.random_range(0..4) {
        0 => json!(i64::MAX),
        1 => json!(u64::MAX),
        2 => json!(-1e300),
        _ => json!(rng.random_range(-10..100_000)),
    }
}

fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    below.unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn bodies_change_within_their_bounds_and_grow() {
        let body = json!({"name": "a", "tags": ["b", "c"], "of": {"level": 1}});
        let mut rng = StdRng::seed_from_u64(1);
        let (mut current, mut largest, mut deepest) = (body.clone(), 0, 0);
        for _ in 0..500 {
            let next = mutated(&current, &mut rng);
            largest = largest.max(bytes(&next));
            deepest = deepest.max(depth(&next));
            current = if rng.random_ratio(1, 10) {
                body.clone()
            } else {
                next
            };
        }
        assert!((10_000..=BYTES_MAX).contains(&largest), "{largest}");
        assert!((20..=DEPTH_MAX).contains(&deepest), "{deepest}");
    }

    #[test]
    fn depth_counts_lists_and_objects() {
        for (body, expected) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({"a": [[1]], "b": 2}), 3),
        ] {
            assert_eq!(depth(&body), expected, "{body}");
        }
    }
}
