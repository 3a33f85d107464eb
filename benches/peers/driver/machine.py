"""The machine and commit of a measurement, and which CPUs do what."""

import os
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent


@dataclass(frozen=True)
class Cpus:
    """CPUs as `taskset` lists."""

    service: str
    engine: str
    generator: str

    def engine_of(self, peer):
        """CPUs of a peer's engine: an engine that is the peer has both of the others' CPUs."""
        if peer.is_engine and self.engine != self.service:
            return f"{self.service},{self.engine}"
        return self.engine


def cpus():
    """One CPU each for service, engine and generator; engine and generator share one of two."""
    available = sorted(os.sched_getaffinity(0))
    engine = available[min(1, len(available) - 1)]
    rest = available[2:] or [engine]
    return Cpus(str(available[0]), str(engine), ",".join(map(str, rest)))


def describe():
    """The machine, with the fields that the suite's results have."""
    return {
        "cpu": _value("/proc/cpuinfo", "model name") or "unknown",
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
        "memory_bytes": 1024 * int((_value("/proc/meminfo", "MemTotal") or "0").split()[0]),
        "commit": _commit(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _value(path, name):
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _commit():
    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return "unknown"
    # Files that a run writes are not a change of what is measured.
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ":!benches")
    return commit + ("+" if changes else "")
