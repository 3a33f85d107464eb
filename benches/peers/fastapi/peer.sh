#!/usr/bin/env bash
# FastAPI and clickhouse-connect, from PyPI, with one uvicorn worker.
#
#   peer.sh install | version | run
#
# `run` needs PORT, CLICKHOUSE_URL, CLICKHOUSE_USER and CLICKHOUSE_PASSWORD, and stays in the
# foreground. With BUFFER=1 requests are answered before they are inserted. PEERS_DIR is where it
# is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${PEERS_DIR:-$here/../../../target/peers}/fastapi

case ${1:-} in
install)
    if ! cmp -s "$here/requirements.txt" "$venv/.installed"; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
        cp "$here/requirements.txt" "$venv/.installed"
    fi
    ;;
version)
    "$venv/bin/python" -c 'import sys; print("Python", sys.version.split()[0])'
    "$venv/bin/pip" list --format freeze --disable-pip-version-check |
        grep -E '^(fastapi|uvicorn|clickhouse-connect)=='
    ;;
run)
    cd "$here"
    exec "$venv/bin/uvicorn" service:app --host 127.0.0.1 --port "$PORT" --log-level warning \
        --no-access-log
    ;;
*)
    echo "usage: $0 install|version|run" >&2
    exit 64
    ;;
esac
