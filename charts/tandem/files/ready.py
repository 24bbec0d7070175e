# SPDX-License-Identifier: Apache-2.0
"""Asks an operator until it is ready.

python3 ready.py http://HOST:PORT TRIES
"""

import sys
import time
import urllib.error
import urllib.request

SECONDS_BETWEEN = 2


def read(url: str) -> str:
    """The answer's text; raises OSError unless all is well."""
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 -- the chart gives the URL
        text: str = answer.read().decode()
        return text


def why_not_ready(operator: str) -> str:
    """Empty if it is."""
    try:
        read(f"{operator}/readyz")
        metrics = read(f"{operator}/metrics")
    except urllib.error.HTTPError as error:
        return f"{error.url} answers {error.code}: {error.read().decode().strip()}"
    except OSError as error:
        return f"{operator} does not answer: {error}"
    return "" if "\ntandem_resources " in metrics else f"{operator}/metrics has no tandem_resources"


operator, tries = sys.argv[1], int(sys.argv[2])
while wrong := why_not_ready(operator):
    print(wrong, flush=True)
    tries -= 1
    if not tries:
        sys.exit(1)
    time.sleep(SECONDS_BETWEEN)
print("the operator is ready")
