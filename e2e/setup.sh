#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv equal to uv.lock. Brings its own pinned uv, so that only Python 3.11 and a package index are needed.
set -euo pipefail
cd "$(dirname "$0")/.."

uv_version=0.13.9
cache="${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}"
uv_home="$cache/uv-$uv_version"
uv="$uv_home/bin/uv"

# A Python that the machine has is used; none is fetched from elsewhere.
export UV_PYTHON_DOWNLOADS=never
# The packages' folder may be on another file system than the cache.
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"

python=""
for candidate in python3.11 python3 python3.12 python3.13; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then
    echo "setup: Python 3.11 or newer is needed; on Debian 12: apt-get install python3" >&2
    exit 1
fi

if [ ! -x "$uv" ]; then
    echo "setup: installing uv $uv_version into $uv_home"
    mkdir -p "$cache"
    partial="$(mktemp -d "$cache/uv-partial.XXXXXX")"
    trap 'rm -rf "$partial"' EXIT
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            echo "setup: installing pip (python3-pip)"
            apt-get update -q >/dev/null
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-pip >/dev/null
        else
            echo "setup: pip is missing; on Debian: apt-get install python3-pip" >&2
            exit 1
        fi
    fi
    # pip's --target needs no venv module, which Debian packages separately.
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$partial" "uv==$uv_version"
    rm -rf "$uv_home"
    mv "$partial" "$uv_home"
    trap - EXIT
fi

# Silent when nothing is to be done. uv would name each of more than a hundred packages.
if ! "$uv" sync --locked --all-packages --check >/dev/null 2>&1; then
    echo "setup: installing the Python packages of uv.lock into .venv, which takes up to a minute the first time"
    "$uv" sync --quiet --locked --all-packages --python "$python"
fi
