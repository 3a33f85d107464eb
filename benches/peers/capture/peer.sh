#!/usr/bin/env bash
# PostHog's standalone capture with the sink that its authors have for debugging: at the default
# log level it drops all events. It needs a Redis for quotas (Debian's redis-tools), which has
# none here. No package registry has the program itself: CAPTURE names the file of one, such as
# capture-server of github.com/PostHog/capture at 9cd1132, its last commit with code.
#
#   peer.sh install | version | run
#
# `run` needs PORT and DATA_DIR, and stays in the foreground. PEERS_DIR is where Redis is linked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${PEERS_DIR:-$here/../../../target/peers}/capture

case ${1:-} in
install)
    [[ -x ${CAPTURE:-} ]] || {
        echo "CAPTURE names no program" >&2
        exit 1
    }
    if ! command -v redis-check-rdb >/dev/null; then
        sudo=()
        ((EUID == 0)) || sudo=(sudo)
        "${sudo[@]}" apt-get update -qq
        # Not the package redis-server, which starts one. The program is the same: its name decides.
        "${sudo[@]}" apt-get install -y -qq --no-install-recommends redis-tools >/dev/null
    fi
    mkdir -p "$folder"
    ln -sf "$(command -v redis-check-rdb)" "$folder/redis-server"
    ;;
version) echo "capture of ${CAPTURE:-}" ;;
run)
    socket_port=$((PORT + 1))
    while (exec 3<>"/dev/tcp/127.0.0.1/$socket_port") 2>/dev/null; do
        socket_port=$((socket_port + 1))
    done
    "$folder/redis-server" --bind 127.0.0.1 --port "$socket_port" --save '' --appendonly no \
        --dir "$DATA_DIR" >"$DATA_DIR/redis" &
    export ADDRESS=127.0.0.1:$PORT REDIS_URL=redis://127.0.0.1:$socket_port PRINT_SINK=true
    # Required, and not used with that sink.
    export KAFKA_HOSTS=127.0.0.1:9 KAFKA_TOPIC=none
    exec "$CAPTURE"
    ;;
*)
    echo "usage: $0 install|version|run" >&2
    exit 64
    ;;
esac
