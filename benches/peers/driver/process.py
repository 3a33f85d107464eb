"""Processes of a peer: started on CPUs of their own, measured by /proc, ended by id.

A peer is a tree of processes, as services have workers and the embedded engine is a child. A
process is known by its id and its start time, so that an id that was given out again is never
killed.
"""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 20
# Fields of /proc/PID/stat behind the name, from the state on.
PARENT, USER, SYSTEM, CHILD_USER, CHILD_SYSTEM, STARTED = 1, 11, 12, 13, 14, 19


class PeerError(Exception):
    """Reason why a peer cannot be measured."""


def stat(pid):
    """Fields of a process from its state on; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A name may hold spaces and brackets.
    return text.rpartition(")")[2].split()


def tree(root):
    """Ids of a process and of all its descendants, each with its start time."""
    children, started = {}, {}
    for name in os.listdir("/proc"):
        fields = stat(name) if name.isdigit() else None
        if fields is not None:
            children.setdefault(int(fields[PARENT]), []).append(int(name))
            started[int(name)] = fields[STARTED]
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        if pid in started and pid not in found:
            found[pid] = started[pid]
            waiting += children.get(pid, [])
    return found


def free_port():
    """Port on loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """A process with its descendants, on the CPUs of a `taskset` list."""

    def __init__(self, command, cpus, log, environment=None, folder=None):
        """Starts a command; what it prints goes to a file."""
        self.command = [str(part) for part in command]
        self.log = Path(log)
        with self.log.open("ab") as output:
            self.child = subprocess.Popen(
                ["taskset", "-c", cpus, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                cwd=folder,
            )

    def require(self):
        """Raises an error with the end of its output if the process has ended."""
        if self.child.poll() is not None:
            text = self.log.read_text(errors="replace")[-2000:]
            command = " ".join(self.command)
            raise PeerError(f"{command} ended with {self.child.returncode}:\n{text}")

    def wait_for_port(self, port, seconds_max):
        """Waits until the process listens on a port of loopback."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            self.require()
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(POLL_SECONDS)
        raise PeerError(f"{self.command[0]} did not listen on {port} in {seconds_max} s")

    def cpu_seconds(self):
        """CPU time of all processes so far, with that of children that have ended."""
        ticks = 0
        for pid in tree(self.child.pid):
            fields = stat(pid)
            if fields is not None:
                ticks += sum(
                    int(fields[at]) for at in (USER, SYSTEM, CHILD_USER, CHILD_SYSTEM)
                )
        return ticks / TICKS_PER_SECOND

    def kill(self):
        """Kills all processes at once by SIGKILL and waits until they are gone."""
        end(self.child, tree(self.child.pid), signal.SIGKILL)

    def stop(self):
        """Asks the process to end, and kills what is left after a while."""
        members = tree(self.child.pid)
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                pass
        end(self.child, members, signal.SIGKILL)


def end(child, members, with_signal):
    """Signals processes that still are the ones they were, and waits until all are gone."""
    # The parent comes first: it must not see its children end and start them again.
    for pid in members:
        if is_same(pid, members[pid]):
            try:
                os.kill(pid, with_signal)
            except ProcessLookupError:
                pass
    child.wait()
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while any(is_same(pid, members[pid]) for pid in members):
        if time.monotonic() > deadline:
            raise PeerError(f"processes {sorted(members)} do not end")
        time.sleep(POLL_SECONDS)


def is_same(pid, started):
    """Returns true if the process runs and is the one that started then; zombies have ended."""
    fields = stat(pid)
    return fields is not None and fields[STARTED] == started and fields[0] not in "ZX"
