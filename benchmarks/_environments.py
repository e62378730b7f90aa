"""Virtual environments of the contenders, made on first use from pinned lists."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["EnvironmentUnavailableError", "Environments", "plain"]

LISTS = Path(__file__).parent / "environments"
CACHE = Path(__file__).parent / ".environments"
PARENT = "ours"
#: Lines of a list that begin with it are installed last, without what they ask for.
_ALONE = "--no-deps "
INSTALL_SECONDS = 1200


class EnvironmentUnavailableError(RuntimeError):
    """An environment could not be made; the message says why, without paths or addresses."""


class Environments:
    """Interpreters by the name of their environment.

    Parameters
    ----------
    given : mapping of str to path
        Interpreters to use instead of making an environment.
    cache : path, optional
        Where environments are made.
    """

    def __init__(self, given: Mapping[str, str] | None = None, cache: Path = CACHE) -> None:
        unknown = sorted(set(given or {}) - {PARENT, *self.names()})
        if unknown:
            msg = (
                f"No environment is called {unknown[0]!r}. "
                f"Choose from: {', '.join([PARENT, *self.names()])}."
            )
            raise ValueError(msg)
        for name, python in (given or {}).items():
            if shutil.which(python) is None:
                msg = f"--python {name}={python}: there is no such interpreter."
                raise ValueError(msg)
        self._given = {PARENT: sys.executable, **(given or {})}
        self._cache = cache
        self._failed: dict[str, str] = {}

    @staticmethod
    def names() -> list[str]:
        return sorted(path.stem for path in LISTS.glob("*.txt"))

    @staticmethod
    def requirements(name: str) -> str:
        return (LISTS / f"{name}.txt").read_text()

    def state(self, name: str) -> str:
        """In a word, for the list of environments."""
        if name in self._given:
            return "given" if name != PARENT else "this interpreter"
        if self._is_ready(name):
            return "ready"
        return "outdated" if self._folder(name).exists() else "not made yet"

    def python(self, name: str) -> str:
        """Interpreter of an environment, made now if need be."""
        if name in self._given:
            return self._given[name]
        if name in self._failed:
            raise EnvironmentUnavailableError(self._failed[name])
        if not self._is_ready(name):
            try:
                self._make(name)
            except EnvironmentUnavailableError as error:
                self._failed[name] = str(error)
                raise
        return str(self._folder(name) / "bin" / "python")

    def _folder(self, name: str) -> Path:
        return self._cache / name

    def _stamp(self, name: str) -> str:
        content = f"{sys.version_info[:2]} {self.requirements(name)}"
        return hashlib.sha256(content.encode()).hexdigest()

    def _is_ready(self, name: str) -> bool:
        stamp = self._folder(name) / "stamp"
        return stamp.exists() and stamp.read_text() == self._stamp(name)

    def _make(self, name: str) -> None:
        print(f"Making the environment {name!r} ...", file=sys.stderr, flush=True)
        folder = self._folder(name)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        wanted = self.requirements(name).splitlines()
        alone = [line.removeprefix(_ALONE) for line in wanted if line.startswith(_ALONE)]
        others = [line for line in wanted if line and not line.startswith((_ALONE, "#"))]
        self._install(folder, others)
        if alone:
            self._install(folder, ["--no-deps", *alone])
        (folder / "stamp").write_text(self._stamp(name))

    @staticmethod
    def _install(folder: Path, wanted: Sequence[str]) -> None:
        command = [folder / "bin" / "python", "-m", "pip", "install", "-q"]
        try:
            done = subprocess.run(
                [*command, *wanted], capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            msg = f"installation took more than {INSTALL_SECONDS} s"
            raise EnvironmentUnavailableError(msg) from None
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = lines[0] if lines else f"pip ended with code {done.returncode}"
            msg = f"installation failed: {plain(reason)}"
            raise EnvironmentUnavailableError(msg)


def plain(reason: str) -> str:
    """A reason without addresses and paths of the machine, cut to a readable length."""
    reason = re.sub(r"\w+://\S+", "<address>", reason)
    reason = re.sub(r"(?<![\w.])(/[\w.+-]+){2,}/?", "<path>", reason)
    reason = " ".join(reason.split())
    return reason if len(reason) <= 300 else reason[:297] + "..."
