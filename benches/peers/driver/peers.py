"""The peers: how each is started, what it is sent, and where its rows are."""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from engine import TABLE
from process import PeerError, Process, free_port

HERE = Path(__file__).resolve().parent.parent
INSTALL_SECONDS_MAX = 900
START_SECONDS_MAX = 90
INSERT = (
    "/?query=INSERT+INTO+peers.events+FORMAT+JSONEachRow"
    "&async_insert=1&wait_for_async_insert=1&date_time_input_format=best_effort"
)


@dataclass(frozen=True)
class Peer:
    """A peer of the table."""

    name: str
    label: str
    # Moment of the acknowledgement, for the page.
    acknowledges: str
    # Folder of its script; none if the engine itself is the peer.
    folder: str = ""
    form: str = "batch"
    path: str = "/batch/"
    # Table with its rows; empty if it stores nothing.
    table: str = TABLE
    variables: dict = field(default_factory=dict)
    # File with the project key, below the service's folder.
    credentials: str = ""
    # Variable with the file of a program that no registry has, and the published figures that
    # are named in its place.
    program: str = ""
    published: str = ""

    @property
    def is_engine(self):
        """True if requests go to the engine itself."""
        return not self.folder


PEERS = [
    Peer(
        "millrace",
        "Millrace",
        "when the events are synced to disk",
        folder="millrace",
        table="millrace.events",
        credentials="data/credentials.json",
    ),
    Peer(
        "clickhouse",
        "ClickHouse, async_insert over HTTP",
        "when the part is written (wait_for_async_insert=1); nothing is synced",
        form="rows",
        path=INSERT,
    ),
    Peer(
        "fastapi",
        "FastAPI, clickhouse-connect",
        "when ClickHouse has inserted the request (async_insert, waits)",
        folder="fastapi",
    ),
    Peer(
        "fastapi-buffer",
        "FastAPI, a buffer in memory",
        "at once; rows wait in memory for a second at most",
        folder="fastapi",
        variables={"BUFFER": "1"},
    ),
    Peer(
        "node",
        "Node: fastify, @clickhouse/client",
        "when ClickHouse has inserted the request (async_insert, waits)",
        folder="node",
    ),
    Peer(
        "node-buffer",
        "Node, a buffer in memory",
        "at once; rows wait in memory for a second at most",
        folder="node",
        variables={"BUFFER": "1"},
    ),
    Peer(
        "vector",
        "Vector, http_server to clickhouse",
        "when ClickHouse has inserted the rows (acknowledgements)",
        folder="vector",
        form="rows",
        path="/",
        program="VECTOR",
        published=(
            "26.7 MiB/s from TCP to HTTP, beside 19.6 of Fluent Bit "
            "(README of github.com/vectordotdev/vector at 00653bfc, its test harness)"
        ),
    ),
    Peer(
        "capture",
        "PostHog's capture, stores nothing",
        "when the events are parsed; its sink drops them",
        folder="capture",
        form="list",
        path="/i/v0/e/",
        table="",
        program="CAPTURE",
        published="none: its repository, github.com/PostHog/capture at 9cd1132, has no figures",
    ),
]


def by_name(names):
    """Peers with these names; all without any."""
    known = {peer.name: peer for peer in PEERS}
    for name in names:
        if name not in known:
            raise PeerError(f"there is no peer {name!r}; there are: {', '.join(known)}")
    return [known[name] for name in names] if names else list(PEERS)


def absence(peer):
    """Reason why a peer cannot be run on this machine; none if it can."""
    if not peer.program:
        return None
    named = os.environ.get(peer.program)
    if named and os.access(named, os.X_OK):
        return None
    if peer.program == "VECTOR" and shutil.which("vector"):
        return None
    return f"no package registry has its program; {peer.program} names the file of one"


def install(peer, folder):
    """Installs a peer from package registries into a folder; quick if it is there."""
    if peer.is_engine:
        return
    done = subprocess.run(
        [HERE / peer.folder / "peer.sh", "install"],
        env={**os.environ, "PEERS_DIR": str(folder), **peer.variables},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise PeerError(f"{peer.name} is not installed:\n{done.stdout}{done.stderr}")


def version(peer, engine, folder):
    """Versions of what was measured, in a line."""
    if peer.is_engine:
        return f"ClickHouse {engine.version()}"
    done = subprocess.run(
        [HERE / peer.folder / "peer.sh", "version"],
        env={**os.environ, "PEERS_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
    )
    return " ".join(done.stdout.split())


class Service:
    """A running peer on one CPU; the engine itself if that is the peer."""

    def __init__(self, peer, engine, folder, install_folder, cpus):
        """Starts the peer and waits until it listens."""
        self.peer = peer
        self.engine = engine
        self.process = None
        self.key = "any"
        self.headers = []
        if peer.is_engine:
            self.url = engine.url + peer.path
            self.headers = [
                "X-ClickHouse-User: " + engine.user,
                "X-ClickHouse-Key: " + engine.password,
            ]
            return
        port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PORT": str(port),
            "DATA_DIR": str(folder),
            "PEERS_DIR": str(install_folder),
            **engine.environment(),
            **peer.variables,
        }
        script = HERE / peer.folder / "peer.sh"
        self.process = Process([script, "run"], cpus, folder / "output", environment)
        self.url = f"http://127.0.0.1:{port}{peer.path}"
        try:
            self.process.wait_for_port(port, START_SECONDS_MAX)
            if peer.credentials:
                self.key = self._key(folder / peer.credentials)
        except BaseException:
            self.process.stop()
            raise

    def cpu_seconds(self):
        """CPU time of the service so far; 0 if the engine is the peer."""
        return self.process.cpu_seconds() if self.process else 0.0

    def stop(self):
        """Ends the service; the engine goes on."""
        if self.process:
            self.process.stop()

    def _key(self, path):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            self.process.require()
            try:
                return json.loads(path.read_text())["project_api_key"]
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.1)
        raise PeerError(f"{path} was not written")
