"""What schemathesis cannot make up from the document, so that its requests reach something.

Texts that are made up never name anything, and nearly all of a run would be 404. The organization
is the caller's; outside the chains along the links, which bring ids of their own, other ids are
those of earlier answers. Most requests that shall succeed get values that do for the few fields
whose rules a schema cannot say. What would take the run's own key or ground away is turned to
ids of nothing. At the end, the statuses of each operation are written to a file.

MILLRACE_MINE: what must stay: the run's key, user, organization and project, with commas.
MILLRACE_STATUSES: where the statuses go.
"""

import atexit
import collections
import json
import os
import random
import re
import threading
import uuid

import schemathesis
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation

KEY, USER, ORGANIZATION, PROJECT = os.environ["MILLRACE_MINE"].split(",")
MINE = {KEY, USER, ORGANIZATION, PROJECT, "@current", "@me"}
MEMBERS = "/api/organizations/{organization_id}/members/"
# Things of which the run's own may not even be changed.
GUARDED = ("/api/personal_api_keys/", MEMBERS)
# How often a request takes a hint, so that the others try what there is not.
HINTED = 0.9
# Things of a kind that DELETE leaves to the operations after it.
LEFT_MIN = 1
KNOWN_MAX = 20
VALID = {
    "destination": lambda: {"type": "NoOp", "config": {}},
    "domain": lambda: f"d{choice.getrandbits(64):x}.example.com",
    "code": lambda: "missing_event",
    "end_at": lambda: "2020-01-02T00:00:00Z",
    "events": lambda: [],
    "expires_at": lambda: "2100-01-01T00:00:00Z",
    "hogql_query": lambda: None,
    "interval": lambda: "hour",
    "is_global": lambda: False,
    "name": lambda: f"Name {choice.getrandbits(64):x}",
    "scoped_organizations": lambda: [ORGANIZATION],
    "scopes": lambda: ["organization:read"],
    "start_at": lambda: "2020-01-01T00:00:00Z",
    "team_id": lambda: int(PROJECT),
    "timezone": lambda: "Europe/Berlin",
    "user_uuid": lambda: choice.choice([*(it["user_uuid"] for it in known[MEMBERS]), USER]),
}
# Without them a record gets what it needs to be seen where it was made.
OMITTED = ("capabilities", "url")

lock = threading.Lock()
choice = random.Random(20)
known = collections.defaultdict(list)
statuses = collections.defaultdict(collections.Counter)
# The parameter that follows a list's path.
OWN = {}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for path in raw_schema["paths"]:
        for name in re.findall(r"{(\w+)}", path):
            OWN[list_of(path, name)] = name


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives hints, then guards what must stay."""
    with lock:
        case.path_parameters = guarded(case, hinted(case))
        if is_positive(case) and choice.random() < HINTED:
            for name in ("If-Match", "If-None-Match", "Idempotency-Key"):
                case.headers.pop(name, None)
            bodies = case.body if isinstance(case.body, list) else [case.body]
            for body in bodies:
                if isinstance(body, dict):
                    body.update({name: VALID[name]() for name in VALID if name in body})
                    for name in OMITTED:
                        body.pop(name, None)


@schemathesis.hook
def after_call(context, case, response):
    """Learns ids, and counts."""
    with lock:
        if case.meta is not None and not is_negative(case, ParameterLocation.BODY):
            # What is wrong with a path or a header is not always refused, nor need it be: another
            # version, an id of its own, a text in place of which a thing was found.
            case.meta.generation.mode = GenerationMode.POSITIVE
        statuses[case.operation.label][response.status_code] += 1
        path = case.operation.path
        if response.status_code == 204:
            forget(path, case.path_parameters or {})
        if is_in_chain(case) or response.status_code not in (200, 201):
            return
        if "json" not in response.headers.get("content-type", [""])[0]:
            return
        answer = response.json()
        things = answer.get("results", [answer]) if isinstance(answer, dict) else answer
        for thing in things:
            remember(case, thing)


@atexit.register
def write():
    counted = {label: dict(counts) for label, counts in statuses.items()}
    with open(os.environ["MILLRACE_STATUSES"], "w") as file:
        json.dump(counted, file)


def is_in_chain(case):
    return case.meta is not None and case.meta.phase.name == "stateful"


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


def is_negative(case, location):
    component = case.meta.components.get(location) if case.meta is not None else None
    return component is not None and component.mode == GenerationMode.NEGATIVE


def is_uuid(text):
    try:
        return bool(uuid.UUID(str(text)))
    except ValueError:
        return False


def hinted(case):
    """The parameters of the path, most of them with ids of things that exist."""
    path, parameters = case.operation.path, dict(case.path_parameters or {})
    if is_negative(case, ParameterLocation.PATH):
        return parameters
    for name, value in list(parameters.items()):
        ids = known[list_of(path, name)]
        left_min = LEFT_MIN if case.method == "DELETE" else 0
        if name == "organization_id":
            parameters[name] = value if is_uuid(value) else "@current"
        elif path.startswith("/api/projects/") and name == "project_id":
            parameters[name] = PROJECT
        elif len(ids) > left_min and not is_in_chain(case) and choice.random() < HINTED:
            parameters.update(choice.choice(ids))
    return parameters


def guarded(case, parameters):
    """The same without what must stay."""
    path = case.operation.path
    for name, value in parameters.items():
        is_deleted = case.method == "DELETE" and path.endswith("{" + name + "}/")
        is_changed = path.startswith(GUARDED) and name != "organization_id"
        if case.method != "GET" and str(value) in MINE and (is_deleted or is_changed):
            parameters[name] = str(uuid.UUID(int=choice.getrandbits(128)))
    return parameters


def list_of(path, parameter):
    return path.split("{" + parameter + "}")[0]


def remember(case, thing):
    """Things are known by the list that they were made in or listed by, with the ids above."""
    path = case.operation.path
    if not isinstance(thing, dict) or path.endswith("}/"):
        return
    name = str(thing.get("user", {}).get("uuid") if path == MEMBERS else thing.get("id"))
    place = {**(case.path_parameters or {}), OWN[path]: name} if path in OWN else None
    if place and name not in MINE and place not in known[path]:
        known[path].append(place)
        del known[path][:-KNOWN_MAX]


def forget(path, parameters):
    for ids in known.values():
        ids[:] = [place for place in ids if not place.items() <= parameters.items()]
