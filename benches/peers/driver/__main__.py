"""Runs Millrace and its peers in turn on this machine and writes what was measured as JSON.

    python3 benches/peers/driver --help

Peers take turns round by round, so that a machine that is slow for a while is slow for all. Every
round has an engine and a service of its own, on empty folders on the disk, which are removed.
"""

import argparse
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import bodies
import crash
import machine
import measure
import peers
from process import PeerError

LOADS = [
    {"name": name, "title": title, "events": events, "event_bytes": size, "connections": count}
    for name, title, events, size, count in [
        ("batches", "250 events of 998 B", 250, 998, 16),
        ("tens", "10 events of 998 B", 10, 998, 128),
        # The engine takes 160 statements at once.
        ("singles", "1 event of 998 B", 1, 998, 128),
        ("small", "1 000 events of 136 B", 1000, 136, 16),
    ]
]
USUAL = ",".join(load["name"] for load in LOADS[:3])
FULL = {"rounds": 5, "kills": 5, "seconds": 5, "warm_up": 1}
QUICK = {"rounds": 1, "kills": 1, "seconds": 1, "warm_up": 0.5}


@dataclass
class Bench:
    """What all rounds share."""

    server: Path
    generator: Path
    work: Path
    installs: Path
    cpus: machine.Cpus
    seconds: float
    warm_up: float


def arguments():
    """Options of the command line."""
    target = machine.ROOT / "target"
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", default="", metavar="PEER,…", help="these peers only; Millrace is always run")
    add("--loads", default=USUAL, metavar="LOAD,…", help=f"loads; {USUAL} by default, or small")
    add("--rounds", type=int, help="rounds of each peer and load (5)")
    add("--kills", type=int, help="kills of each peer (5)")
    add("--seconds", type=float, help="length of a window in seconds (5)")
    add("--quick", action="store_true", help="a second each, to see that all works; written apart")
    add("--server", type=Path, default=target / "release/millrace", help="Millrace's program")
    add("--load", type=Path, default=target / "release/millrace-load", help="the generator's")
    add("--work", type=Path, default=target / "peers", help="folder on the disk to be measured")
    add("--out", type=Path, help="file of the results")
    return parser.parse_args()


def chosen_loads(text):
    """Loads by their names."""
    known = {load["name"]: load for load in LOADS}
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise PeerError(f"there is no load {name!r}; there are: {', '.join(known)}")
    return [known[name] for name in names]


def output(options):
    """File of the results. A quick run, or one of a part, takes no full one's place."""
    if options.out is None:
        is_part = options.quick or options.only or options.loads != USUAL
        folder = options.work if is_part else machine.ROOT / "benches/report"
        return folder / "peers.json"
    if options.quick and options.out.exists():
        if not json.loads(options.out.read_text()).get("quick", False):
            raise PeerError(f"{options.out} has results of a full run; write quick ones elsewhere")
    return options.out


def run(options):
    """Measures and returns the results."""
    effort = dict(QUICK if options.quick else FULL)
    for name in ("rounds", "kills", "seconds"):
        if getattr(options, name) is not None:
            effort[name] = getattr(options, name)
    loads = chosen_loads(options.loads)
    wanted = peers.by_name([name for name in options.only.split(",") if name])
    if all(peer.name != "millrace" for peer in wanted):
        wanted.insert(0, peers.PEERS[0])
    work = options.work.resolve()
    os.environ["MILLRACE"] = str(options.server.resolve())
    bench = Bench(
        options.server.resolve(),
        options.load.resolve(),
        work / "data",
        work,
        machine.cpus(),
        effort["seconds"],
        effort["warm_up"],
    )
    bench.work.mkdir(parents=True, exist_ok=True)
    results = {
        "machine": machine.describe(),
        "command": shlex.join(["benches/peers/run.sh", *sys.argv[1:]]),
        "quick": options.quick,
        "seconds": bench.seconds,
        "cpus": vars(bench.cpus),
        "loads": loads,
        "peers": [],
        "absent": [],
    }
    entries = prepare(bench, wanted, results)
    measure_rounds(bench, effort["rounds"], loads, entries)
    measure_kills(bench, effort["kills"], entries)
    return results


def prepare(bench, wanted, results):
    """Installs the peers; returns those that can be run, each with its entry of the results."""
    entries = []
    for peer in wanted:
        reason = peers.absence(peer)
        if reason:
            say(f"{peer.name}: not run: {reason}")
            results["absent"].append(
                {
                    "name": peer.name,
                    "label": peer.label,
                    "reason": reason,
                    "published": peer.published,
                }
            )
            continue
        say(f"{peer.name}: installing")
        peers.install(peer, bench.installs)
        entry = {
            "name": peer.name,
            "label": peer.label,
            "acknowledges": peer.acknowledges,
            "stores": bool(peer.table),
            "version": "",
            "rounds": [],
            "kills": [],
        }
        results["peers"].append(entry)
        entries.append((peer, entry))
    return entries


def measure_rounds(bench, rounds, loads, entries):
    """Runs each load of each peer, round by round."""
    paths = {load["name"]: bodies.record(bench.generator, load, bench.work) for load in loads}
    for index in range(rounds):
        for load in loads:
            for peer, entry in entries:
                figures = measure.round_of(bench, peer, load, paths[load["name"]])
                entry["version"] = figures.pop("version")
                entry["rounds"].append(figures)
                rate, p99 = figures["events_per_second"], figures["p99_ms"]
                say(
                    f"round {index + 1} of {rounds}, {load['name']}: "
                    f"{rate:12,.0f} events/s, p99 {p99:8.2f} ms  {peer.label}"
                )


def measure_kills(bench, kills, entries):
    """Kills each peer that stores something, in turn."""
    for index in range(kills):
        for peer, entry in entries:
            if not peer.table:
                continue
            counts = crash.kill_of(bench, peer)
            entry["kills"].append(counts)
            lost, acknowledged = counts["lost_events"], counts["acknowledged_events"]
            say(f"kill {index + 1} of {kills}: {lost} of {acknowledged} lost  {peer.label}")


def say(text):
    """Prints progress."""
    print(text, file=sys.stderr, flush=True)


def main():
    """Runs the program; returns its exit code."""
    options = arguments()
    try:
        path = output(options)
        results = run(options)
    except PeerError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    say(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
