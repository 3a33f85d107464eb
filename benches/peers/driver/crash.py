"""A kill -9: numbered events are sent, all processes of the peer are killed, it is started again,
and the events that it had acknowledged are looked for.

The machine goes on, so what a process has given to the kernel survives. A power cut would take that
as well, except from a peer that syncs before it answers.
"""

import http.client
import random
import shutil
import threading
import time
import urllib.parse
import uuid
from datetime import datetime, timezone

import bodies
from engine import Engine
from measure import SETTLE_SECONDS
from peers import Service

CONNECTIONS = 4
BATCH_EVENTS = 10
EVENTS_PER_SECOND = 4_000
REPLY_SECONDS_MAX = 20
POLL_SECONDS = 0.2
# The kill falls at random between these, when all buffers have been flushed at least once.
KILL_SECONDS = (2.0, 4.0)


class Sender:
    """Threads that send numbered events at a steady rate until they are stopped or fail."""

    def __init__(self, service, run):
        self.service = service
        self.run = run
        self.acknowledged, self.refused = set(), 0
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.threads = [
            threading.Thread(target=self._send, args=(index,), daemon=True)
            for index in range(CONNECTIONS)
        ]

    def start(self):
        """Starts to send."""
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Ends; answers that are on their way are not waited for."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(REPLY_SECONDS_MAX + 1)

    def _send(self, index):
        url = urllib.parse.urlsplit(self.service.url)
        path = url.path + (f"?{url.query}" if url.query else "")
        headers = {"Content-Type": "application/json"}
        headers.update(header.split(": ", 1) for header in self.service.headers)
        connection = http.client.HTTPConnection(url.netloc, timeout=REPLY_SECONDS_MAX)
        pause = BATCH_EVENTS * CONNECTIONS / EVENTS_PER_SECOND
        due, first = time.monotonic(), index * BATCH_EVENTS
        while not self.stopped.is_set():
            numbers = range(first, first + BATCH_EVENTS)
            body = self._body(numbers).encode()
            try:
                connection.request("POST", path, body, headers)
                reply = connection.getresponse()
                reply.read()
            except (OSError, http.client.HTTPException):
                return
            with self.lock:
                if 200 <= reply.status < 300:
                    self.acknowledged.update(numbers)
                else:
                    self.refused += 1
            first += BATCH_EVENTS * CONNECTIONS
            due += pause
            self.stopped.wait(max(0.0, due - time.monotonic()))

    def _body(self, numbers):
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        events = bodies.numbered(numbers, self.run, now, lambda _: str(uuid.uuid4()))
        return bodies.text(events, self.service.peer.form, self.service.key)


def kill_of(bench, peer):
    """Counts of one kill: acknowledged, lost, and stored more than once."""
    folder = bench.work / f"{peer.name}-kill"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    parts = []
    try:
        engine, service = _start(bench, peer, folder, parts)
        run = f"kill-{uuid.uuid4().hex[:12]}"
        sender = Sender(service, run)
        sender.start()
        time.sleep(random.uniform(*KILL_SECONDS))
        # The service first: it must not answer for an engine that is gone.
        for part in reversed(parts):
            part.kill()
        parts.clear()
        sender.stop()
        began = time.monotonic()
        engine, service = _start(bench, peer, folder, parts)
        restarted = time.monotonic() - began
        stored = _settled(engine, peer, run, sender.acknowledged)
        numbers = [int(text.removeprefix("n-")) for text in stored]
        return {
            "acknowledged_events": len(sender.acknowledged),
            "lost_events": len(sender.acknowledged - set(numbers)),
            "doubled_events": len(numbers) - len(set(numbers)),
            "refused_requests": sender.refused,
            "restart_seconds": restarted,
        }
    finally:
        for part in reversed(parts):
            part.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start(bench, peer, folder, parts):
    engine = Engine(bench.server, folder / "engine", bench.cpus.engine_of(peer))
    parts.append(engine.process)
    service = Service(peer, engine, folder / "service", bench.installs, bench.cpus.service)
    if service.process:
        parts.append(service.process)
    return engine, service


def _settled(engine, peer, run, acknowledged):
    stored = engine.distinct_ids(peer.table, run)
    last = time.monotonic()
    while time.monotonic() - last < SETTLE_SECONDS:
        if len(set(stored)) >= len(acknowledged):
            break
        time.sleep(POLL_SECONDS)
        now = engine.distinct_ids(peer.table, run)
        if len(now) > len(stored):
            last = time.monotonic()
        stored = now
    return stored
