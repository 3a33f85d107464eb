"""Tests of the statements: `python3 -m unittest discover -s benches/columns`."""

import re
import unittest

from queries import QUERIES, text
from tables import COLUMNS, TABLES, block, create


class Statements(unittest.TestCase):
    def test_every_query_names_its_table_and_no_placeholder(self):
        self.assertEqual(len(QUERIES), 10)
        for title, query in QUERIES:
            for table in TABLES:
                statement = text(query, table)
                self.assertIn(f"columns.{table['name']}", statement, title)
                self.assertIsNone(re.search(r"\{[$a-z_]+\}", statement), statement)

    def test_every_query_but_for_its_properties_is_the_same_for_all_tables(self):
        for title, query in QUERIES:
            self.assertIn("{table}", query, title)
            self.assertNotIn("properties", query, title)
            self.assertTrue(any("{" + name + "}" in query for _, name, _, _ in COLUMNS), title)

    def test_blocks_differ_by_the_columns_only(self):
        plain, with_columns = (block(0, 10, 5, more) for more in (False, True))
        for column, _, _, _ in COLUMNS:
            self.assertNotIn(column, plain)
            self.assertIn(f" AS {column}", with_columns)
            self.assertIn(column, create(TABLES[2]))
        self.assertEqual(plain.partition("FROM")[2], with_columns.partition("FROM")[2])


if __name__ == "__main__":
    unittest.main()
