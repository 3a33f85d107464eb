"""Runs of `millrace-load`."""

import json
import subprocess

from process import PeerError

SPARE_SECONDS = 120


def run(generator, service, load, paths, cpus, seconds, warm_up, folder, rate=None):
    """Sends a load to a service and returns the summary: closed loop, or open with a rate."""
    summary = folder / "summary.json"
    command = [generator, "--url", service.url, "--key", service.key, "--quiet"]
    for path in paths[service.peer.form]:
        command += ["--body-file", path]
    for header in service.headers:
        command += ["--header", header]
    command += ["--connections", load["connections"], "--pin", cpus]
    command += ["--duration", f"{seconds}s", "--warm-up", f"{warm_up}s", "--json", summary]
    if rate is not None:
        command += ["--rate", f"{rate:.3f}"]
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=seconds + warm_up + SPARE_SECONDS,
    )
    if done.returncode != 0:
        raise PeerError(f"the generator ended with {done.returncode}:\n{done.stderr}")
    result = json.loads(summary.read_text())
    summary.unlink()
    return result
