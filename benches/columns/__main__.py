"""Compares properties as text, as ClickHouse's JSON type and as property columns.

    python3 benches/columns --help

The same blocks of events, sorted and in Native format as shippers send them, go into three tables.
Insert CPU, disk, and time and bytes of ten queries are measured; all tables must give the same
answers. It measures the engine alone: what shippers spend on a column is in `block` of
`make bench-check`.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers" / "driver"))

import machine  # noqa: E402
from engine import Engine  # noqa: E402
from process import PeerError  # noqa: E402
from queries import QUERIES, text  # noqa: E402
from tables import TABLES, block, create  # noqa: E402

BLOCK_ROWS = 100_000
STATEMENT_SECONDS_MAX = 3600
FULL = {"rows": 20_000_000, "rounds": 5}
QUICK = {"rows": 200_000, "rounds": 1}


def arguments():
    """Options of the command line."""
    target = machine.ROOT / "target"
    parser = argparse.ArgumentParser(prog="benches/columns", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, help="events; 20 million by default, about 6 GB on disk")
    add("--rounds", type=int, help="runs of each query (5)")
    add("--quick", action="store_true", help="few events, to see that all works; written apart")
    add("--server", type=Path, default=target / "release/millrace", help="Millrace's program")
    add("--work", type=Path, default=target / "columns", help="folder on the disk")
    add("--out", type=Path, help="file of the results")
    return parser.parse_args()


def fill(engine, rows):
    """Inserts the events into all tables in turn; returns CPU seconds by table."""
    seconds = {table["name"]: 0.0 for table in TABLES}
    users = max(1, rows // 100)
    for first in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - first)
        blocks = {}
        for with_columns in (False, True):
            query = block(first, count, users, with_columns) + " FORMAT Native"
            blocks[with_columns] = engine.post(query.encode(), STATEMENT_SECONDS_MAX)
        for table in TABLES:
            name = table["name"]
            before = engine.process.cpu_seconds()
            engine.post(
                blocks[name == "by_column"],
                STATEMENT_SECONDS_MAX,
                query=f"INSERT INTO columns.{name} FORMAT Native",
                optimize_on_insert=0,
            )
            seconds[name] += engine.process.cpu_seconds() - before
        say(f"{first + count:,} of {rows:,} events")
    return seconds


def merge(engine):
    """Merges each month of each table into one part; returns bytes on disk by table."""
    sizes = {}
    for table in TABLES:
        name = table["name"]
        engine.query(f"SYSTEM START MERGES columns.{name}")
        engine.post(f"OPTIMIZE TABLE columns.{name} FINAL".encode(), STATEMENT_SECONDS_MAX)
        where = f"database = 'columns' AND table = '{name}' AND active"
        size = engine.query(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE {where}")
        sizes[name] = int(size)
        say(f"{name}: {sizes[name]:,} bytes")
    return sizes


def ask(engine, rounds):
    """Runs all queries on all tables in turn; returns seconds and bytes read by query and table."""
    measured = []
    for title, query in QUERIES:
        runs = {table["name"]: [] for table in TABLES}
        for _ in range(rounds):
            answers = {}
            for table in TABLES:
                statement = text(query, table) + " FORMAT JSONCompact"
                reply = json.loads(engine.post(statement.encode(), STATEMENT_SECONDS_MAX))
                answers[table["name"]] = reply["data"]
                runs[table["name"]].append(reply["statistics"])
            if len({json.dumps(data) for data in answers.values()}) != 1:
                short = {name: data[:3] for name, data in answers.items()}
                raise PeerError(f"{title}: the tables have different answers: {short}")
        measured.append((title, runs))
        say(title)
    return measured


def grouped(number):
    """A number with spaces between its thousands, as on the page."""
    return f"{number:,}".replace(",", " ")


def queries_table(rows, measured):
    """Table of the queries."""
    names = [table["name"] for table in TABLES]
    lines, ratios = [], {name: [] for name in names}
    for title, runs in measured:

        def middle(name, key, runs=runs):
            return statistics.median(run[key] for run in runs[name])

        for name in names:
            ratios[name].append(middle(name, "elapsed") / middle("by_column", "elapsed"))
        line = [title] + [interval(runs[name]) for name in names]
        line += [f"{ratios[name][-1]:.1f}" for name in names[:2]]
        line += [f"{middle(name, 'bytes_read') / 1e6:.0f}" for name in names]
        lines.append(line)
    text_ratio = statistics.median(ratios["by_text"])
    json_ratio = statistics.median(ratios["by_json"])
    labels = [table["label"] for table in TABLES]
    return {
        "name": "columns-queries",
        "title": "Properties as text, as JSON and as columns: ten queries",
        "columns": ["Query"]
        + [f"{label}, ms" for label in labels]
        + ["JSONExtract ÷ columns", "JSON type ÷ columns"]
        + [f"{label}, MB read" for label in labels],
        "rows": lines,
        "notes": [
            f"{grouped(rows)} events of about 1 kB with 25 properties, seven of which are columns; "
            "months merged into a part each, caches warm. All tables gave the same answers.",
            f"Median of the ten: columns are {text_ratio:.1f} times as fast as JSONExtract, and "
            f"{json_ratio:.1f} times as fast as the JSON type.",
        ],
        "figures": {
            "JSONExtract ÷ columns: ratio": text_ratio,
            "JSON type ÷ columns: ratio": json_ratio,
        },
    }


def interval(runs):
    """Median of times in milliseconds, with the lowest and the highest."""
    times = [1000 * run["elapsed"] for run in runs]
    low, high = f"{min(times):.0f}", f"{max(times):.0f}"
    return f"{statistics.median(times):.0f}" + (f" ({low} to {high})" if low != high else "")


def cost_table(rows, seconds, sizes):
    """Table of inserts and disk."""
    lines = [
        [
            table["label"],
            f"{1e6 * seconds[table['name']] / rows:.2f}",
            f"{seconds[table['name']] / seconds['by_text']:.2f}",
            f"{sizes[table['name']] / rows:.1f}",
            f"{sizes[table['name']] / sizes['by_text']:.2f}",
        ]
        for table in TABLES
    ]
    return {
        "name": "columns-cost",
        "title": "Properties as text, as JSON and as columns: insert and disk",
        "columns": [
            "Table",
            "insert, CPU µs an event",
            "insert ÷ text",
            "disk, bytes an event",
            "disk ÷ text",
        ],
        "rows": lines,
        "notes": [
            "CPU time of the engine for the same sorted blocks in Native format, merges stopped. "
            "The values of columns come with the block, as shippers send them."
        ],
        "figures": {
            "columns, insert ÷ text: ratio": seconds["by_column"] / seconds["by_text"],
            "columns, disk ÷ text: ratio": sizes["by_column"] / sizes["by_text"],
        },
    }


def output(options):
    """File of the results. A quick run never takes the place of a full one."""
    if options.out is not None:
        if options.quick and options.out.exists():
            raise PeerError(f"{options.out} is there already; write quick results elsewhere")
        return options.out
    folder = options.work if options.quick else machine.ROOT / "benches/report"
    return folder / "columns.json"


def run(options):
    """Measures and returns the tables."""
    effort = QUICK if options.quick else FULL
    rows = options.rows or effort["rows"]
    rounds = options.rounds or effort["rounds"]
    folder = options.work.resolve() / "engine"
    shutil.rmtree(folder, ignore_errors=True)
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    engine = Engine(options.server.resolve(), folder, cpus)
    try:
        engine.query("CREATE DATABASE IF NOT EXISTS columns")
        for table in TABLES:
            engine.query(create(table))
            engine.query(f"SYSTEM STOP MERGES columns.{table['name']}")
        seconds = fill(engine, rows)
        sizes = merge(engine)
        measured = ask(engine, rounds)
    finally:
        engine.process.stop()
        shutil.rmtree(folder, ignore_errors=True)
    facts = machine.describe()
    shared = {"plot": None, "origin": {"commit": facts["commit"], "date": facts["date"]}}
    tables = [queries_table(rows, measured), cost_table(rows, seconds, sizes)]
    return [{**table, **shared} for table in tables]


def say(message):
    """Prints progress."""
    print(message, file=sys.stderr, flush=True)


def main():
    """Runs the program; returns its exit code."""
    options = arguments()
    try:
        path = output(options)
        tables = run(options)
    except PeerError as error:
        print(f"columns: {error}", file=sys.stderr)
        return 2
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tables, indent=2, ensure_ascii=False) + "\n")
    say(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
