//! Slices of a ledger's runs, each small enough for one query.

use std::collections::BTreeMap;

/// Approximate number of rows that one query groups; keeps ClickHouse's memory within some 100 MB.
const ROWS_MAX: u64 = 10_000_000;
/// Runs that one query names.
pub(super) const RUNS_MAX: usize = 5_000;

/// Runs that one query groups, or a part of a single one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) runs: Vec<u32>,
    pub(super) part: Part,
}

/// Part of the batches of a slice's runs: those whose number has this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) parts: u64,
}

/// All batches.
const WHOLE: Part = Part {
    number: 0,
    parts: 1,
};

/// Slices of runs with so many rows each. A run that is too large is cut by its batches.
pub(super) fn slices(rows: &BTreeMap<u32, u64>) -> Vec<Slice> {
    let (mut slices, mut runs, mut gathered) = (Vec::new(), Vec::new(), 0);
    for (&run, &of_run) in rows {
        let parts = of_run.div_ceil(ROWS_MAX);
        if parts > 1 {
            slices.extend((0..parts).map(|number| Slice {
                runs: vec![run],
                part: Part { number, parts },
            }));
            continue;
        }
        if gathered + of_run > ROWS_MAX || runs.len() == RUNS_MAX {
            let runs = std::mem::take(&mut runs);
            slices.push(Slice { runs, part: WHOLE });
            gathered = 0;
        }
        runs.push(run);
        gathered += of_run;
    }
    if !runs.is_empty() {
        slices.push(Slice { runs, part: WHOLE });
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_runs_share_a_slice_and_large_ones_have_several() {
        let whole = |runs: &[u32]| Slice {
            runs: runs.to_vec(),
            part: WHOLE,
        };
        let part = |run, number, parts| Slice {
            runs: vec![run],
            part: Part { number, parts },
        };
        let rows = BTreeMap::from([
            (1, 10),
            (2, ROWS_MAX - 10),
            (3, 1),
            (4, 2 * ROWS_MAX + 1),
            (5, 0),
        ]);
        let expected = [
            whole(&[1, 2]),
            part(4, 0, 3),
            part(4, 1, 3),
            part(4, 2, 3),
            whole(&[3, 5]),
        ];
        assert_eq!(slices(&rows), expected);
        assert!(slices(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn a_slice_names_a_limited_number_of_runs() {
        let runs = u32::try_from(RUNS_MAX).unwrap() + 1;
        let rows = (0..runs).map(|run| (run, 1)).collect();
        let lengths: Vec<usize> = slices(&rows).iter().map(|it| it.runs.len()).collect();
        assert_eq!(lengths, [RUNS_MAX, 1]);
    }
}
