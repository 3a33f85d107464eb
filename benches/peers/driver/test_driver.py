"""Tests of the driver's own parts: `python3 -m unittest discover -s benches/peers/driver`."""

import importlib.util
import json
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

import bodies
import machine
import peers
from process import PeerError, Process, is_same, tree


def main_module():
    """The driver's main module, whatever runs these tests."""
    path = Path(__file__).with_name("__main__.py")
    spec = importlib.util.spec_from_file_location("driver_main", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bodies(unittest.TestCase):
    def test_a_body_has_the_same_events_in_each_form(self):
        time_text = "2026-11-30T00:00:00.000Z"
        events = bodies.numbered([3, 4], "run", time_text, lambda number: f"u{number}")
        batch = json.loads(bodies.text(events, "batch", "key"))
        rows = [json.loads(line) for line in bodies.text(events, "rows", "key").splitlines()]
        listed = json.loads(bodies.text(events, "list", "key"))
        self.assertEqual(batch, {"api_key": "key", "batch": events})
        self.assertEqual(rows, events)
        self.assertEqual(listed, [{"api_key": "key", **event} for event in events])
        self.assertEqual([event["distinct_id"] for event in events], ["n-3", "n-4"])


class Cpus(unittest.TestCase):
    def test_an_engine_that_is_the_peer_has_the_cpus_of_both(self):
        by_name = {peer.name: peer for peer in peers.PEERS}
        cpus = machine.Cpus("0", "1", "2,3")
        self.assertEqual(cpus.engine_of(by_name["clickhouse"]), "0,1")
        self.assertEqual(cpus.engine_of(by_name["node"]), "1")
        alone = machine.Cpus("0", "0", "0")
        self.assertEqual(alone.engine_of(by_name["clickhouse"]), "0")


class Output(unittest.TestCase):
    def test_a_quick_run_never_takes_the_place_of_a_full_one(self):
        main = main_module()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peers.json"
            options = SimpleNamespace(
                out=path, quick=True, work=Path(folder), only="", loads=main.USUAL
            )
            self.assertEqual(main.output(options), path)
            for quick in (True, False):
                path.write_text(json.dumps({"quick": quick}))
                if quick:
                    self.assertEqual(main.output(options), path)
                else:
                    self.assertRaises(PeerError, main.output, options)
            options.out = None
            page = machine.ROOT / "benches/report/peers.json"
            for quick, only, loads, expected in [
                (True, "", main.USUAL, path),
                (False, "node", main.USUAL, path),
                (False, "", "small", path),
                (False, "", main.USUAL, page),
            ]:
                options.quick, options.only, options.loads = quick, only, loads
                self.assertEqual(main.output(options), expected)

    def test_unknown_names_are_refused(self):
        self.assertRaises(PeerError, peers.by_name, ["nobody"])
        self.assertRaises(PeerError, main_module().chosen_loads, "nothing")


class Processes(unittest.TestCase):
    def test_a_kill_ends_the_whole_tree_and_nothing_else(self):
        bystander = subprocess.Popen(["sleep", "60"])
        try:
            with tempfile.TemporaryDirectory() as folder:
                cpus = machine.cpus().service
                command = ["sh", "-c", "sleep 60 & sleep 60"]
                process = Process(command, cpus, Path(folder) / "output")
                deadline = time.monotonic() + 20
                while len(tree(process.child.pid)) < 3 and time.monotonic() < deadline:
                    time.sleep(0.01)
                members = tree(process.child.pid)
                self.assertEqual(len(members), 3)
                self.assertGreaterEqual(process.cpu_seconds(), 0)
                process.kill()
                self.assertFalse(any(is_same(pid, members[pid]) for pid in members))
            self.assertIsNone(bystander.poll())
        finally:
            bystander.kill()
            bystander.wait()

    def test_a_process_that_ends_is_an_error_with_its_output(self):
        with tempfile.TemporaryDirectory() as folder:
            command = ["sh", "-c", "echo sorry; exit 3"]
            process = Process(command, machine.cpus().service, Path(folder) / "output")
            with self.assertRaisesRegex(PeerError, "sorry"):
                process.wait_for_port(1, 20)


if __name__ == "__main__":
    unittest.main()
