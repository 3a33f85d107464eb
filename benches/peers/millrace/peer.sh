#!/usr/bin/env bash
# Millrace with its defaults: one worker, as it has one CPU, and the log on disk.
#
#   peer.sh install | version | run
#
# `run` needs PORT, DATA_DIR, CLICKHOUSE_URL, CLICKHOUSE_USER and CLICKHOUSE_PASSWORD, and
# stays in the foreground. MILLRACE names the program.
set -euo pipefail
millrace=${MILLRACE:-$(dirname "$0")/../../../target/release/millrace}

case ${1:-} in
install)
    [[ -x $millrace ]] || {
        echo "$millrace is missing: make build" >&2
        exit 1
    }
    ;;
version) "$millrace" --version ;;
run)
    # All load comes from one address, which otherwise gets a share of the connections only: as
    # behind a load balancer, that address is trusted.
    options=(--data-dir "$DATA_DIR/data" --ingest-addr "127.0.0.1:$PORT" --admin-addr 127.0.0.1:0
        --health-addr 127.0.0.1:0 --trusted-proxies 127.0.0.1
        --clickhouse-url "$CLICKHOUSE_URL" --clickhouse-user "$CLICKHOUSE_USER")
    export MILLRACE_CLICKHOUSE_PASSWORD=$CLICKHOUSE_PASSWORD
    exec "$millrace" serve "${options[@]}"
    ;;
*)
    echo "usage: $0 install|version|run" >&2
    exit 64
    ;;
esac
