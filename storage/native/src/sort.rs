//! The table's order: `(team_id, toDate(timestamp), event, cityHash64(distinct_id),
//! cityHash64(uuid))`.

/// Sorting key of a row, and the row. Rows of equal keys stay in their order, which tells the last
/// one of equal versions from those that it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SortRow {
    pub(crate) team_id: i64,
    /// Days since 1970.
    pub(crate) day: u16,
    /// Rank of the name among those of the block.
    pub(crate) name: u16,
    /// Hash of the distinct id.
    pub(crate) distinct_id: u64,
    /// Hash of the uuid.
    pub(crate) uuid: u64,
    /// Index of the row, from 0.
    pub(crate) row: u32,
}

/// Rows in the order of their keys.
#[derive(Debug)]
pub(crate) struct Order {
    /// Indexes of the rows.
    pub(crate) rows: Vec<u32>,
    /// True if two rows have equal keys.
    pub(crate) has_equal_keys: bool,
}

impl SortRow {
    fn has_key_of(&self, other: &Self) -> bool {
        let row = self.row;
        Self { row, ..*other } == *self
    }
}

impl Order {
    /// Sorts rows.
    pub(crate) fn of(mut rows: Vec<SortRow>) -> Self {
        rows.sort_unstable();
        let mut pairs = rows.iter().zip(rows.iter().skip(1));
        let has_equal_keys = pairs.any(|(row, next)| row.has_key_of(next));
        Self {
            rows: rows.iter().map(|row| row.row).collect(),
            has_equal_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_one_field_after_the_other() {
        let row = SortRow::default();
        let sorted = [
            SortRow {
                team_id: -1,
                day: 9,
                name: 9,
                distinct_id: 9,
                uuid: 9,
                ..row
            },
            SortRow {
                day: 9,
                name: 9,
                distinct_id: 9,
                uuid: 9,
                ..row
            },
            SortRow {
                team_id: 1,
                name: 9,
                distinct_id: 9,
                uuid: 9,
                ..row
            },
            SortRow {
                team_id: 1,
                day: 1,
                distinct_id: 9,
                uuid: 9,
                ..row
            },
            SortRow {
                team_id: 1,
                day: 1,
                name: 1,
                uuid: 9,
                ..row
            },
            SortRow {
                team_id: 1,
                day: 1,
                name: 1,
                distinct_id: 1,
                uuid: 7,
                ..row
            },
            SortRow {
                team_id: 1,
                day: 1,
                name: 1,
                distinct_id: 1,
                uuid: u64::MAX,
                ..row
            },
        ];
        let numbered = (0..)
            .zip(sorted)
            .map(|(nth, row)| SortRow { row: nth, ..row });
        let mut shuffled: Vec<SortRow> = numbered.collect();
        shuffled.rotate_left(3);
        shuffled.swap(0, 5);
        let order = Order::of(shuffled);
        assert_eq!(order.rows, [0, 1, 2, 3, 4, 5, 6]);
        assert!(!order.has_equal_keys);
    }

    #[test]
    fn rows_of_equal_keys_stay_in_their_order_and_are_told() {
        let row = |team_id, row| SortRow {
            team_id,
            row,
            ..SortRow::default()
        };
        for (rows, expected, has_equal_keys) in [
            (vec![row(1, 0)], vec![0], false),
            (vec![row(2, 0), row(1, 1)], vec![1, 0], false),
            (vec![row(2, 0), row(1, 1), row(2, 2)], vec![1, 0, 2], true),
            (vec![row(1, 0), row(1, 1), row(1, 2)], vec![0, 1, 2], true),
        ] {
            let order = Order::of(rows);
            assert_eq!(
                (order.rows, order.has_equal_keys),
                (expected, has_equal_keys)
            );
        }
    }
}
