"""A round: the highest rate of a peer with its CPU time, then latency at half of that rate.

The events that a peer has acknowledged are waited for: the CPU time of an event is that of the
service and the engine until it can be queried, whoever does the work and when.
"""

import shutil
import time
from contextlib import contextmanager

import generator
from engine import Engine
from peers import Service, version
from process import PeerError

POLL_SECONDS = 0.1
# A peer has lost what it has not stored after so long without a new row.
SETTLE_SECONDS = 15


@contextmanager
def running(bench, peer):
    """A peer with an engine of its own, on empty folders, which are removed afterwards."""
    folder = bench.work / peer.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    engine = service = None
    try:
        engine = Engine(bench.server, folder / "engine", bench.cpus.engine_of(peer))
        service = Service(peer, engine, folder / "service", bench.installs, bench.cpus.service)
        yield engine, service, folder
    finally:
        try:
            if service:
                service.stop()
        finally:
            if engine:
                engine.process.stop()
            shutil.rmtree(folder, ignore_errors=True)


def round_of(bench, peer, load, paths):
    """Figures of a round, with the names that the results have."""
    with running(bench, peer) as (engine, service, folder):
        before = (service.cpu_seconds(), engine.process.cpu_seconds())
        closed = _load(bench, service, load, paths, folder)
        # The first request was due when the warm-up began.
        began = time.monotonic() - bench.seconds - bench.warm_up
        acknowledged = closed["run"]["acknowledged_events"]
        if acknowledged == 0:
            raise PeerError(f"{peer.name} acknowledged nothing: {closed['first_failure']}")
        stored = settled_rows(engine, peer, acknowledged) if peer.table else None
        after = (service.cpu_seconds(), engine.process.cpu_seconds())
        figures = {
            "load": load["name"],
            "version": version(peer, engine, bench.installs),
            "events_per_second": closed["events_per_second"],
            "acknowledged_events": acknowledged,
            "failed_requests": closed["run"]["failed_requests"],
            "first_failure": closed["first_failure"],
            "service_cpu_us": 1e6 * (after[0] - before[0]) / acknowledged,
            "engine_cpu_us": 1e6 * (after[1] - before[1]) / acknowledged,
        }
        if stored is not None:
            rows, at = stored
            figures["stored_rows"] = rows
            figures["queryable_per_second"] = rows / (at - began)
        # An engine that stores nothing of a peer idles: its time is not the peer's.
        if not peer.table:
            figures["engine_cpu_us"] = 0.0
        open_loop = _load(bench, service, load, paths, folder, closed["events_per_second"] / 2)
        figures["latency_rate"] = closed["events_per_second"] / 2
        figures["unsent_requests"] = open_loop["run"].get("unsent_requests", 0)
        for name in ("p50", "p99"):
            figures[f"{name}_ms"] = open_loop["latency"][f"{name}_us"] / 1000
        return figures


def _load(bench, service, load, paths, folder, rate=None):
    times = (bench.seconds, bench.warm_up)
    cpus = bench.cpus.generator
    return generator.run(bench.generator, service, load, paths, cpus, *times, folder, rate)


def settled_rows(engine, peer, expected):
    """Number of rows and the time of the last one, once all or no further ones arrive."""
    rows, at = engine.rows(peer.table), time.monotonic()
    while rows < expected and time.monotonic() - at < SETTLE_SECONDS:
        time.sleep(POLL_SECONDS)
        now = engine.rows(peer.table)
        if now > rows:
            rows, at = now, time.monotonic()
    return rows, at
