#!/usr/bin/env bash
# Installs valgrind, which `make bench-check` counts instructions with. Does nothing when it is
# there.
set -euo pipefail
command -v valgrind >/dev/null && exit
if ! command -v apt-get >/dev/null; then
    echo "valgrind is needed to count instructions. There is no apt-get here: install it by other means." >&2
    exit 1
fi
echo "Installing valgrind to count instructions"
sudo=()
((EUID == 0)) || sudo=(sudo)
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind >/dev/null
