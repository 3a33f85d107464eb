"""Sends events with the real posthog package and prints what it sent.

    python send_python.py URL KEY COUNT [historical|ai]

`ai` sends them by capture_ai, which 7.91.1 has. Works with posthog 7.91.1 (requirements.txt) and
3.25.0 (requirements-old.txt), whose signatures differ. Prints a JSON list of {uuid, event,
distinct_id, timestamp, properties}; properties are the ones given to the SDK, which adds its own
($lib and such). Exits with 1 if the SDK reported an error.
"""

import json
import sys
import uuid
from datetime import datetime, timedelta, timezone

import posthog
from posthog import Posthog

# Historical events are as old as an import's; both kinds step by a second and a bit.
STEP = timedelta(seconds=1, microseconds=1001)
HISTORICAL_AGE = timedelta(days=200)


def event(index, start):
    """The event at an index; every tenth has a name, every seventh an id that is not ASCII."""
    return {
        "uuid": str(uuid.uuid4()),
        "event": "päge viewed 🚀" if index % 10 == 0 else "clicked",
        "distinct_id": f"użytkownik-{index} 👩‍🚀" if index % 7 == 0 else f"user-{index % 50}",
        "timestamp": start + index * STEP,
        "properties": {
            "index": index,
            "text": 'quotes " and \\ and / and \n and \t',
            "unicode": "Köln – 東京 – 🦀",
            "nested": {"list": [1, 2.5, None, True, {"deep": "äöü"}], "empty": {}},
            "large": 12345678901234567890123,
            "negative": -0.125,
            "$current_url": f"https://shop.example.com/products/{index}?a=1&b=%20",
        },
    }


def capture(client, sent, is_ai):
    """Queues an event, with whichever signature this version has."""
    fields = {name: sent[name] for name in ("timestamp", "uuid")}
    # The SDK adds its own properties to the dictionary it is given.
    fields["properties"] = dict(sent["properties"])
    if is_ai:
        client.capture_ai(sent["event"], distinct_id=sent["distinct_id"], **fields)
    elif int(posthog.VERSION.split(".")[0]) >= 6:
        client.capture(sent["event"], distinct_id=sent["distinct_id"], **fields)
    else:
        client.capture(sent["distinct_id"], sent["event"], **fields)


def main(url, key, count, mode="live"):
    """Sends, waits, prints."""
    errors = []
    historical = mode == "historical"
    client = Posthog(
        key,
        host=url,
        historical_migration=historical,
        max_queue_size=count + 1,
        on_error=lambda error, batch: errors.append(f"{error!r} for {len(batch)} events"),
    )
    start = datetime.now(timezone.utc) - count * STEP - (HISTORICAL_AGE if historical else timedelta())
    events = [event(index, start) for index in range(count)]
    for sent in events:
        capture(client, sent, mode == "ai")
    client.shutdown()
    if errors:
        sys.exit("\n".join(errors))
    print(json.dumps(events, default=lambda value: value.isoformat()))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: python send_python.py URL KEY COUNT [historical|ai]")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
