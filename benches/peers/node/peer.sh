#!/usr/bin/env bash
# fastify and @clickhouse/client, from npm, in one Node process.
#
#   peer.sh install | version | run
#
# `run` needs PORT, CLICKHOUSE_URL, CLICKHOUSE_USER and CLICKHOUSE_PASSWORD, and stays in the
# foreground. With BUFFER=1 requests are answered before they are inserted. PEERS_DIR is where it
# is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${PEERS_DIR:-$here/../../../target/peers}/node

case ${1:-} in
install)
    if ! cmp -s "$here/package-lock.json" "$folder/.installed"; then
        mkdir -p "$folder"
        cp "$here/package.json" "$here/package-lock.json" "$folder"
        npm ci --prefix "$folder" --no-audit --no-fund --silent
        cp "$here/package-lock.json" "$folder/.installed"
    fi
    # Node looks for packages beside the file that imports them.
    cp "$here/service.mjs" "$folder"
    ;;
version)
    echo "Node $(node --version)"
    npm ls --prefix "$folder" --depth 0 --parseable=false 2>/dev/null |
        grep -oE '(fastify|@clickhouse/client)@[0-9.]+'
    ;;
run)
    cd "$folder"
    exec node service.mjs
    ;;
*)
    echo "usage: $0 install|version|run" >&2
    exit 64
    ;;
esac
