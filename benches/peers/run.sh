#!/usr/bin/env bash
# Installs the peers, runs them and Millrace in turn, and writes benches/report/peers.json. `--quick`
# is a second each, to see that all works; `--help` lists the rest.
set -euo pipefail
exec python3 "$(dirname "$0")/driver" "$@"
