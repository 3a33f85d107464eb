"""What users do with clickhouse-driver. Arguments: port, user, password, password of reader."""
import logging
import sys

from clickhouse_driver import Client
from clickhouse_driver.errors import Error

port, user, password, reader_password = sys.argv[1:]
logging.disable(logging.CRITICAL)


def client(name, secret):
    return Client("127.0.0.1", port=int(port), user=name, password=secret)


def refused(name, secret, code):
    try:
        client(name, secret).execute("SELECT 1")
    except Error as error:
        assert error.code == code, error
    else:
        raise SystemExit(f"{name} got in")


own = client(user, password)
assert own.execute("SELECT 1 + 1") == [(2,)]
own.execute("CREATE TABLE millrace.native (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
rows = [(number, f"näme {number}") for number in range(10_000)]
assert own.execute("INSERT INTO millrace.native VALUES", rows) == len(rows)
assert own.execute("SELECT id, name FROM millrace.native ORDER BY id") == rows

reader = client("reader", reader_password)
assert reader.execute("SELECT count() FROM millrace.native") == [(len(rows),)]
try:
    reader.execute("DROP TABLE millrace.native")
    raise SystemExit("reader dropped a table")
except Error as error:
    assert error.code == 497, error

refused(user, "wrong", 516)
refused("reader", "wrong", 516)
refused("nobody", "wrong", 516)
# The engine's own session is the only one of this user.
refused("default", "", 516)
assert own.execute("SELECT 1") == [(1,)]
print("all is well")
