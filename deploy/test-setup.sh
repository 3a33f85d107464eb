#!/usr/bin/env bash
# Installs what tests need beside Rust. Safe to run again; does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# PostgreSQL's programs, Python's venv, curl, strace, two proxies, libfaketime: from the system's
# packages.
packages=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || packages+=(postgresql)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v curl >/dev/null || packages+=(curl)
command -v strace >/dev/null || packages+=(strace)
for proxy in haproxy nginx; do
    [[ -x /usr/sbin/$proxy ]] || command -v "$proxy" >/dev/null || packages+=("$proxy")
done
command -v faketime >/dev/null || packages+=(faketime)
if ((${#packages[@]})); then
    echo "Installing ${packages[*]} for the tests"
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    # Without these the packages start servers of their own.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap '"${sudo[@]}" rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
        "${sudo[@]}" chmod +x "$policy"
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive PG_CLUSTER_CONF_ROOT=/nonexistent \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

# Prometheus' checker of rules, out of its package: installed, that would start a server.
promtool=.test-env/prometheus/promtool
if [[ ! -x $promtool ]] && ! command -v promtool >/dev/null; then
    package=$(mktemp -d)
    trap 'rm -r "$package"' EXIT
    mkdir -p "${promtool%/*}"
    (cd "$package" && apt-get download -qq prometheus 2>/dev/null)
    dpkg-deb --fsys-tarfile "$package"/prometheus_*.deb |
        tar --extract --to-stdout ./usr/bin/promtool >"$promtool.new"
    chmod +x "$promtool.new"
    mv "$promtool.new" "$promtool"
fi

# Python clients and servers, in an environment of their own.
deploy/test-python.sh >/dev/null

# Node clients.
lock=load-tests/clients/package-lock.json
stamp=load-tests/clients/node_modules/.installed
if [[ -f $lock ]] && ! cmp -s "$lock" "$stamp"; then
    npm ci --prefix load-tests/clients --no-audit --no-fund --silent
    cp "$lock" "$stamp"
fi
