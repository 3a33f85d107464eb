"""Reads a file of an export by those who will read it, and prints what each found as JSON.

    read_back.py parquet|arrow|csv|query_csv|jsonl|lines|table <file>
"""

import csv
import datetime
import json
import sys
import tempfile

import duckdb
import pyarrow
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

csv.field_size_limit(1 << 30)
NAMES = ["uuid", "event", "distinct_id", "properties", "timestamp", "created_at", "team_id",
         "historical_migration"]


def plain(value):
    """A value as JSON Lines have it."""
    if isinstance(value, datetime.datetime):
        utc = value.astimezone(datetime.timezone.utc)
        return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value


def rows(names, tuples):
    found = [dict(zip(names, map(plain, row))) for row in tuples]
    return sorted(found, key=lambda row: row.get("uuid") or row["event"])


def of_arrow(table):
    return rows(table.column_names, zip(*(column.to_pylist() for column in table.columns)))


def of_duckdb(sql, file):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    answer = connection.execute(sql, [file])
    names = [column[0] for column in answer.description]
    return rows(names, answer.fetchall())


def parquet(file):
    metadata = pyarrow.parquet.ParquetFile(file).metadata
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    codecs = {group.column(n).compression for group in groups for n in range(metadata.num_columns)}
    table = pyarrow.parquet.read_table(file)
    # Times come as texts, as DuckDB needs another library for zones.
    texts = {field.name for field in table.schema if pyarrow.types.is_timestamp(field.type)}
    columns = ", ".join(
        f"strftime({name} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" if name in texts else name
        for name in table.column_names)
    return {
        "readers": {
            "pyarrow": of_arrow(table),
            "duckdb": of_duckdb(f"SELECT {columns} FROM read_parquet(?)", file),
        },
        "codecs": sorted(codecs),
        "types": [str(field.type) for field in table.schema],
    }


def arrow(file):
    with pyarrow.ipc.open_stream(file) as stream:
        table = stream.read_all()
    return {
        "readers": {"pyarrow": of_arrow(table)},
        "types": [str(field.type) for field in table.schema],
    }


def typed(row):
    return {**row, "team_id": int(row["team_id"]), "historical_migration": row["historical_migration"] == "true"}


def with_csv(file):
    with open(file, newline="", encoding="utf-8") as text:
        found = list(csv.DictReader(text, strict=True))
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.ReadOptions(block_size=64 << 20)
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pyarrow.string() for name in NAMES}, strings_can_be_null=False)
    table = pyarrow.csv.read_csv(file, parse_options=parse, read_options=read, convert_options=convert)
    sql = """SELECT * FROM read_csv(?, all_varchar = true, header = true, delim = ',', quote = '"', escape = '"',
             max_line_size = 67108864, nullstr = 'no such text', strict_mode = false, new_line = '\\r\\n')"""
    key = lambda row: row["uuid"]
    return {"readers": {
        "python": sorted(map(typed, found), key=key),
        "pyarrow": sorted(map(typed, of_arrow(table)), key=key),
        "duckdb": sorted(map(typed, of_duckdb(sql, file)), key=key),
    }}


def query_csv(file):
    sql = "SELECT event, n, people, strftime(first, '%Y-%m-%dT%H:%M:%S.%fZ') AS first, price, other FROM read_csv(?)"
    return {"readers": {"duckdb": of_duckdb(sql, file)}}


def lines(file):
    with open(file, "rb") as text:
        return [json.loads(line) for line in text]


def jsonl(file):
    found = lines(file)
    assert all(isinstance(row["properties"], dict) for row in found)
    for row in found:
        row["properties"] = None
    # The properties as JSON text, as not all of them fit DuckDB's types.
    sql = """SELECT uuid, event, distinct_id, NULL AS properties, timestamp, created_at, team_id, historical_migration
             FROM read_json(?, format = 'newline_delimited', maximum_object_size = 67108864, columns = {
             uuid: 'VARCHAR', event: 'VARCHAR', distinct_id: 'VARCHAR', properties: 'JSON', timestamp: 'VARCHAR',
             created_at: 'VARCHAR', team_id: 'BIGINT', historical_migration: 'BOOLEAN'})"""
    with open(file, "rb") as every, tempfile.NamedTemporaryFile("wb") as whole:
        whole.writelines(line for line in every if b'\\ud800"' not in line)
        whole.flush()
        by_duckdb = of_duckdb(sql, whole.name)
    return {"readers": {"python": sorted(found, key=lambda row: row["uuid"]), "duckdb": by_duckdb}}


def table(file):
    found = []
    with open(file, encoding="utf-8") as text:
        for line in text:
            row = json.loads(line)
            # As it was sent: what stands between its key and the next.
            raw = line.split('"properties":', 1)[1].split(',"elements":', 1)[0]
            assert json.loads(raw) == row["properties"]
            row["properties"] = raw
            found.append(row)
    return {"rows": found}


def main():
    how, file = sys.argv[1:]
    readers = {
        "parquet": parquet, "arrow": arrow, "csv": with_csv, "query_csv": query_csv, "jsonl": jsonl,
        "lines": lambda file: {"readers": {"python": lines(file)}}, "table": table,
    }
    json.dump(readers[how](file), sys.stdout)


main()
