# SPDX-License-Identifier: Apache-2.0
"""`make help`, which is the first that a newcomer types."""

import subprocess

from tests.documents.blocks import ROOT
from tests.documents.record import targets


def test_it_says_of_every_target_what_it_does_and_is_plain_text_in_a_file() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in said.split("\n\n")[0].splitlines()}

    assert told.keys() == targets().keys()
    assert all(len(words) > 10 for words in told.values())
    assert "\033" not in said
