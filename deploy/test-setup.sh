#!/usr/bin/env bash
# Installs what tests need beside Rust. Safe to run again; does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# PostgreSQL's programs, Python's venv, curl, strace, two proxies, libfaketime, XFS, a browser: from
# the system's packages.
packages=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || packages+=(postgresql)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v curl >/dev/null || packages+=(curl)
command -v strace >/dev/null || packages+=(strace)
for proxy in haproxy nginx; do
    [[ -x /usr/sbin/$proxy ]] || command -v "$proxy" >/dev/null || packages+=("$proxy")
done
command -v faketime >/dev/null || packages+=(faketime)
[[ -x /usr/sbin/mkfs.xfs ]] || command -v mkfs.xfs >/dev/null || packages+=(xfsprogs)
browser=
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && browser=$name
done
[[ $browser ]] || packages+=(chromium)
promtool=.test-env/prometheus/promtool
needs_promtool=
[[ -x $promtool ]] || command -v promtool >/dev/null || needs_promtool=promtool
if [[ ${packages[*]} || $needs_promtool ]] && ! command -v apt-get >/dev/null; then
    echo "The tests need ${packages[*]} $needs_promtool, as Debian calls them. There is no apt-get here to" \
        "install them: do that by other means, and run this again." >&2
    exit 1
fi
if ((${#packages[@]})); then
    echo "Installing ${packages[*]} for the tests, which takes a minute or two"
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    # Without these the packages start servers of their own.
    policy=/usr/sbin/policy-rc.d
    made_policy=
    if [[ ! -e $policy ]]; then
        made_policy=yes
        trap '"${sudo[@]}" rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
        "${sudo[@]}" chmod +x "$policy"
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive PG_CLUSTER_CONF_ROOT=/nonexistent \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    # Now: there is one trap only, and services of later packages are to start.
    [[ ! $made_policy ]] || "${sudo[@]}" rm -f "$policy"
fi

# Prometheus' checker of rules, out of its package: installed, that would start a server.
if [[ $needs_promtool ]]; then
    echo "Fetching Prometheus' promtool for the tests"
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

# Node clients, and servers in Node.
for folder in load-tests/clients admin/exports/tests/npm; do
    lock=$folder/package-lock.json
    stamp=$folder/node_modules/.installed
    if [[ -f $lock ]] && ! cmp -s "$lock" "$stamp"; then
        echo "Fetching Node packages for the tests: $folder"
        npm ci --prefix "$folder" --no-audit --no-fund --silent
        cp "$lock" "$stamp"
    fi
done

# A server that speaks S3, in Rust. Not a library of the tests: what it is built of is not to be in
# our lock. It is installed beside cargo's other programs, so that the next checkout finds it.
s3s_version=0.14.1
s3s=.test-env/s3s-fs/bin/s3s-fs
installed=${CARGO_INSTALL_ROOT:-${CARGO_HOME:-$HOME/.cargo}}/bin/s3s-fs
if [[ $("$installed" --version 2>/dev/null) != *" $s3s_version" ]]; then
    echo "Building a server that speaks S3 for the tests; this takes minutes"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        cargo install --locked --quiet s3s-fs --version "$s3s_version" --features binary
fi
mkdir -p "${s3s%/*}"
ln -sf "$installed" "$s3s"
