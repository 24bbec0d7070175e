# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents, for the tests that run them as they stand there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.tools import helm_path, packaged_kubectl_path
from tests.documents.blocks import ROOT, Command, all_commands
from tests.documents.record import entries, needed


class Written:
    """The commands that the record gives to one test."""

    def __init__(self, commands: list[Command], environment: Mapping[str, str]) -> None:
        self._commands = {each.text: each for each in reversed(commands)}
        self._environment = environment
        self.left = set(self._commands)
        """Those that were not run yet."""

    def find(self, begins: str) -> Command:
        """The one that begins so: the one that is just this, where there are several."""
        found = [each for text, each in self._commands.items() if text.startswith(begins)]
        exact = [each for each in found if each.text == begins]
        assert exact or len(found) == 1, f"of these commands one must begin with {begins!r}: {sorted(self._commands)}"
        command = (exact or found)[0]
        self.left.discard(command.text)
        return command

    def run(self, begins: str, status: int = 0, **values: str) -> str:
        """Run it in a shell, in the repository's root; what it prints.

        Args:
            begins: how it begins.
            status: with which it should end.
            values: what a reader puts in place of words in capital letters.
        """
        script = filled(self.find(begins).text, values)
        done = self._shell(script)
        assert done.returncode == status, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def first_lines(self, begins: str, until: str, **values: str) -> str:
        """What one prints that doesn't end by itself, until it has printed `until`."""
        with self.begun(begins, **values) as process:
            assert process.stdout is not None
            lines = ""
            while until not in lines:
                line = process.stdout.readline()
                assert line, f"it ended without {until!r}: {lines}"
                lines += line
            return lines

    @contextmanager
    def begun(self, begins: str, **values: str) -> Iterator[subprocess.Popen[str]]:
        """While it lasts, one that doesn't end by itself runs."""
        script = f"exec {filled(self.find(begins).text, values)}"
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )


@contextmanager
def written_for(test: str, environment: Mapping[str, str]) -> Iterator[Written]:
    """The commands of the test with this node id, all of which it has to run."""
    mine = [each for each in entries() if each.written and each.test == test]
    found = [each for each in all_commands() if not needed(each) and any(entry.is_for(each.text) for entry in mine)]
    written = Written(found, environment)
    yield written
    assert not written.left, f"the record gives these to this test, which doesn't run them: {sorted(written.left)}"


def environment(home: Path, **more: str) -> dict[str, str]:
    """A user's, who has kubectl, helm and this checkout's Python, and whose home folder this is."""
    folders = [packaged_kubectl_path().parent, helm_path().parent, Path(sys.executable).parent]
    path = os.pathsep.join([*dict.fromkeys(map(str, folders)), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "HOME": str(home), "COLUMNS": "250", **more}


def filled(text: str, values: Mapping[str, str]) -> str:
    """With what a reader puts in place of each of these words."""
    for word, value in values.items():
        text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", value, text)
    return text
