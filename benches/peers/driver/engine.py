"""The ClickHouse behind all peers: the embedded engine, run by `millrace clickhouse`."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request

from process import PeerError, Process, free_port

START_SECONDS_MAX = 120
REPLY_SECONDS_MAX = 60
# The table that people make for events: its columns are those of the events that are sent.
TABLE = "peers.events"
SCHEMA = [
    "CREATE DATABASE IF NOT EXISTS peers",
    f"""CREATE TABLE IF NOT EXISTS {TABLE} (
        uuid UUID,
        event LowCardinality(String),
        distinct_id String,
        timestamp DateTime64(3, 'UTC'),
        properties String
    ) ENGINE = MergeTree
    PARTITION BY toYYYYMM(timestamp)
    ORDER BY (event, distinct_id, timestamp)""",
]


class Engine:
    """A running engine with the peers' table, in a folder that outlives it."""

    def __init__(self, server, folder, cpus):
        """Starts the engine and makes the table if it is not there yet."""
        port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        command = [server, "clickhouse", "--data-dir", folder]
        command += ["--clickhouse-addr", f"127.0.0.1:{port}", "--log-level", "error"]
        self.process = Process(command, cpus, folder / "output")
        self.url = f"http://127.0.0.1:{port}"
        try:
            self.process.wait_for_port(port, START_SECONDS_MAX)
            credentials = self._credentials(folder / "credentials.json")
            # The server's own user: others may have 32 statements at once.
            self.user = credentials["clickhouse_user"]
            self.password = credentials["clickhouse_password"]
            self._wait_until_it_answers()
            for statement in SCHEMA:
                self.query(statement)
        except BaseException:
            self.process.stop()
            raise

    def query(self, statement):
        """Runs a statement and returns its answer as text."""
        return self.post(statement.encode()).decode()

    def post(self, body, seconds_max=REPLY_SECONDS_MAX, **parameters):
        """Sends a body, a statement or the rows of the parameter `query`; returns the answer."""
        url = f"{self.url}/?{urllib.parse.urlencode(parameters)}"
        request = urllib.request.Request(url, body)
        request.add_header("X-ClickHouse-User", self.user)
        request.add_header("X-ClickHouse-Key", self.password)
        try:
            with urllib.request.urlopen(request, timeout=seconds_max) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            statement = parameters.get("query", body[:500])
            raise PeerError(f"{statement}: {error.read().decode(errors='replace')}") from error

    def rows(self, table):
        """Number of rows that can be queried; 0 if there is no such table yet."""
        database, _, name = table.partition(".")
        where = f"database = '{database}' AND table = '{name}' AND active"
        return int(self.query(f"SELECT sum(rows) FROM system.parts WHERE {where}") or 0)

    def distinct_ids(self, table, event):
        """Distinct ids of the events of a name, one for each row."""
        database, _, name = table.partition(".")
        known = self.query(f"EXISTS TABLE {database}.{name}").strip()
        if known != "1":
            return []
        text = self.query(f"SELECT distinct_id FROM {table} WHERE event = '{event}' FORMAT TSV")
        return text.splitlines()

    def version(self):
        """Version of ClickHouse."""
        return self.query("SELECT version()").strip()

    def environment(self):
        """Variables that tell a peer's script where to insert."""
        return {
            "CLICKHOUSE_URL": self.url,
            "CLICKHOUSE_USER": self.user,
            "CLICKHOUSE_PASSWORD": self.password,
        }

    def _credentials(self, path):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            self.process.require()
            try:
                return json.loads(path.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.1)
        raise PeerError(f"{path} was not written")

    def _wait_until_it_answers(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            self.process.require()
            try:
                self.query("SELECT 1")
                return
            except (PeerError, OSError) as error:
                if time.monotonic() > deadline:
                    raise PeerError(f"the engine does not answer: {error}") from error
                time.sleep(0.1)
