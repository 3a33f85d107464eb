"""Bodies of requests: the same events for all peers, in the form that each of them takes.

The events are those of `millrace-load`, which imitates a browser SDK. Some of its requests are
recorded; uuids, times and keys become placeholders that it fills in anew before each sending.
"""

import http.server
import json
import subprocess
import threading

from process import PeerError

# Different requests in turn, so that no server sees the same bytes again and again.
FILES = 8
RECORD_SECONDS_MAX = 60
FORMS = ("batch", "list", "rows")


def text(events, form, key):
    """Body of events in a form; `batch` and `list` are PostHog's, `rows` is a JSON line each."""
    if form == "batch":
        return json.dumps({"api_key": key, "batch": events}, ensure_ascii=False)
    if form == "list":
        return json.dumps([{"api_key": key, **event} for event in events], ensure_ascii=False)
    lines = [json.dumps(event, ensure_ascii=False) for event in events]
    return "\n".join(lines) + "\n"


def numbered(numbers, run, time_text, uuid_of):
    """Events whose distinct ids are numbers, to see which of them were stored."""
    return [
        {
            "uuid": uuid_of(number),
            "event": run,
            "distinct_id": f"n-{number}",
            "timestamp": time_text,
            "properties": {"n": number, "$lib": "web", "plan": "team"},
        }
        for number in numbers
    ]


def record(generator, load, folder):
    """Writes files with bodies of a load in each form; returns their paths by form."""
    requests = _requests(generator, load)
    paths = {form: [] for form in FORMS}
    for index, body in enumerate(requests):
        events = json.loads(body)["batch"]
        for event in events:
            event["uuid"], event["timestamp"] = "{{uuid}}", "{{time}}"
        for form in FORMS:
            path = folder / f"{load['name']}-{form}-{index}.json"
            path.write_text(_compact(events, form))
            paths[form].append(path)
    return paths


def _compact(events, form):
    # As SDKs write it: without spaces between tokens.
    parsed = [json.loads(line) for line in text(events, form, "{{key}}").splitlines()]
    lines = [json.dumps(it, ensure_ascii=False, separators=(",", ":")) for it in parsed]
    return "\n".join(lines) + ("\n" if form == "rows" else "")


def _requests(generator, load):
    bodies, is_full = [], threading.Event()

    class Recorder(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if len(bodies) < FILES:
                bodies.append(body)
            if len(bodies) == FILES:
                is_full.set()
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    command = [generator, "--url", f"http://127.0.0.1:{server.server_port}", "--key", "any"]
    command += ["--batch-events", str(load["events"]), "--event-bytes", str(load["event_bytes"])]
    command += ["--connections", str(FILES), "--requests", str(FILES), "--quiet"]
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=RECORD_SECONDS_MAX,
        )
    finally:
        server.shutdown()
        server.server_close()
    if done.returncode != 0 or not is_full.is_set():
        raise PeerError(f"{generator} did not send {FILES} requests:\n{done.stderr}")
    return bodies
