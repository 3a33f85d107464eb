"""What users do with clickhouse-connect. Arguments: host, port, user, password."""
import sys
import uuid
from datetime import date

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

host, port, user, password = sys.argv[1:]
client = clickhouse_connect.get_client(host=host, port=int(port), username=user, password=password)

assert client.ping()
assert client.command("SELECT 1 + 1") == 2
client.command("CREATE OR REPLACE TABLE default.python_client (id UInt64, name String, day Date, tags Array(String)) ENGINE = MergeTree ORDER BY id")

rows = [[i, f"näme {i}", date(2024, 10, 1 + i % 28), ["a", "b"][: i % 3]] for i in range(10_000)]
summary = client.insert("python_client", rows, column_names=["id", "name", "day", "tags"], database="default")
assert summary.written_rows == 10_000, summary.summary

result = client.query("SELECT id, name, day, tags FROM default.python_client ORDER BY id")
assert [list(row) for row in result.result_rows] == rows

result = client.query(
    "SELECT count() FROM default.python_client WHERE id < {limit:UInt64} AND name != {name:String}",
    parameters={"limit": 100, "name": "it's"},
    settings={"max_threads": 2},
)
assert result.first_row[0] == 100

with client.query_row_block_stream("SELECT number FROM system.numbers LIMIT 500000") as stream:
    assert sum(len(block) for block in stream) == 500_000

client.raw_insert("default.python_client", insert_block="10001,raw,2024-10-01,\"['x']\"\n", fmt="CSV")
assert client.command("SELECT count() FROM default.python_client") == 10_001
assert b"PAR1" == client.raw_query("SELECT * FROM default.python_client", fmt="Parquet")[:4]

client.command("CREATE TEMPORARY TABLE kept (u UUID)")
client.insert("kept", [[uuid.uuid4()]], column_names=["u"])
assert client.command("SELECT count() FROM kept") == 1, "the client's session keeps its temporary table"

for compression in ("lz4", "zstd", "gzip", False):
    other = clickhouse_connect.get_client(host=host, port=int(port), username=user, password=password, compress=compression)
    other.insert("default.python_client", rows[:10], column_names=["id", "name", "day", "tags"])
    assert other.query("SELECT 1").first_row[0] == 1

try:
    client.query("SELECT * FROM default.python_client_nowhere")
    raise SystemExit("an unknown table was no error")
except DatabaseError as error:
    assert "UNKNOWN_TABLE" in str(error) or "60" in str(error), error
try:
    clickhouse_connect.get_client(host=host, port=int(port), username=user, password="wrong")
    raise SystemExit("a wrong password was no error")
except DatabaseError as error:
    assert "516" in str(error) or "AUTHENTICATION" in str(error).upper(), error

print("all is well")
