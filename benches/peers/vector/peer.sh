#!/usr/bin/env bash
# Vector, whose program no package registry of ours has: VECTOR names its file, or it is found as
# `vector`.
#
#   peer.sh install | version | run
#
# `run` needs PORT, DATA_DIR, CLICKHOUSE_URL, CLICKHOUSE_USER and CLICKHOUSE_PASSWORD, and stays in
# the foreground.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
vector=${VECTOR:-vector}

case ${1:-} in
install) command -v "$vector" >/dev/null ;;
version) "$vector" --version ;;
run)
    # One thread, as it has one CPU.
    exec "$vector" --threads 1 --quiet --config "$here/vector.yaml"
    ;;
*)
    echo "usage: $0 install|version|run" >&2
    exit 64
    ;;
esac
