#!/usr/bin/env bash
# Makes the tests' Python environment, or brings it up to date, and prints its interpreter. Test
# binaries run beside one another, so one at a time does it.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=(load-tests/clients/requirements.txt storage/embedded/tests/requirements.txt admin/tests/requirements.txt admin/exports/tests/requirements.txt)
folder=.test-env/python
stamp=$folder/.installed
mkdir -p .test-env
exec 9>.test-env/python.lock
flock 9
if ! cat "${requirements[@]}" | cmp -s - "$stamp"; then
    echo "Fetching Python packages for the tests" >&2
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]/#/--requirement=}" >&2
    cat "${requirements[@]}" >"$stamp"
fi
echo "$PWD/$folder/bin/python"
