"""Runs `freqdp` in forked children that stop at a named moment, for the harness to kill.

The product has no hooks for this: a child replaces one function of it by one that stops before,
after or amid the real one, and goes on when its marker file is removed. The driver has imported and
compiled everything once, so a child is at work at once; it opens its own connections.

Requests are lines of JSON on stdin: {"arguments", "stop", "marker", "output"}. The answers on stdout
are {"pid"} when a child has been started and {"pid", "status"} when one has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from freqdp_db.cli import main
from freqdp_db.dataset import building
from freqdp_db.db import builds, connection, releases, staging
from freqdp_db.db import copy as layout
from freqdp_db.db import source_rows as source
from freqdp_db.methods.frequency.steps import LocalStep
from freqdp_db.release import pipeline, table

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h

Pause = Callable[[], None]
Patch = Callable[[Pause], None]


def before(owner: Any, name: str, call: int = 1) -> Patch:
    """Stop where this function is called for the n-th time."""
    return _around(owner, name, call, early=True)


def after(owner: Any, name: str, call: int = 1) -> Patch:
    """Stop where its n-th call has returned."""
    return _around(owner, name, call, early=False)


def _around(owner: Any, name: str, call: int, *, early: bool) -> Patch:
    def patch(pause: Pause) -> None:
        real = getattr(owner, name)
        calls = 0

        def stopping(*arguments: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            mine = calls == call
            if mine and early:
                pause()
            result = real(*arguments, **more)
            if mine and not early:
                pause()
            return result

        setattr(owner, name, stopping)

    return patch


def amid_copy(owner: ModuleType, relation: str, chunks: int) -> Patch:
    """Stop inside a COPY into this relation (a prefix), when so many chunks have been sent."""

    def patch(pause: Pause) -> None:
        real = owner.write_records

        def stopping(
            connection: Any, target: Any, columns: Any, rows: Iterable[Any], **more: Any
        ) -> None:
            name = target.as_string(None).rpartition(".")[2].strip('"')
            wanted = name.rstrip("0123456789").rstrip("_") == relation or name == relation
            chosen = _stop_after(rows, chunks, pause) if wanted else rows
            real(connection, target, columns, chosen, **more)

        owner.write_records = stopping  # type: ignore[attr-defined]

    return patch


def amid_read(chunks: int) -> Patch:
    """Stop inside the COPY that reads the source, when so many chunks have been received."""

    def patch(pause: Pause) -> None:
        real = source.read_records

        def stopping(*arguments: Any, **more: Any) -> Iterator[Any]:
            yield from _stop_after(real(*arguments, **more), chunks, pause)

        source.read_records = stopping

    return patch


def while_waiting(pause: Pause) -> None:
    """Stop where somebody else was found at work, before it is asked again."""
    connection.time = SimpleNamespace(**vars(time))  # type: ignore[assignment]
    before(connection.time, "sleep")(pause)


def _stop_after(rows: Iterable[Any], chunks: int, pause: Pause) -> Iterator[Any]:
    passed = 0
    for chunk in rows:
        if passed == chunks:
            pause()
        yield chunk
        passed += 1
    if passed <= chunks:
        pause()


MOMENTS: dict[str, Patch] = {
    "reading: rows counted": before(source.SourceReader, "objects"),
    "reading: some rows": amid_read(1),
    "reading: all rows": after(building, "read_source"),
    "writing: amid the samples": amid_copy(builds, "sample", 2),
    "writing: amid the segments": amid_copy(builds, "segment", 1),
    "writing: all parts": after(building, "write_build"),
    "attaching: before": before(builds, "attach_build"),
    "attaching: after": after(builds, "attach_build"),
    "spent: before the lock": before(pipeline, "run"),
    "spent: before reading": before(pipeline, "load_build"),
    "spent: frequencies": before(LocalStep, "draw"),
    "drawn: first": before(releases, "commit_draw", 1),
    "drawn: amid its commit": amid_copy(releases, "pf_target", 1),
    "drawn: second": before(releases, "commit_draw", 2),
    "targets: first": after(releases, "commit_draw", 1),
    "targets: first edits logged": after(releases, "finish_step", 1),
    "targets: second": after(releases, "commit_draw", 2),
    "copy: first rows": amid_copy(staging, "staging", 1),
    "copy: more rows": amid_copy(staging, "staging", 5),
    "copy: lines": amid_copy(staging, "staging_1_line", 1),
    "publish: before verifying": before(pipeline, "_index_and_compare"),
    "publish: verified": after(pipeline, "_index_and_compare"),
    "publish: before": before(staging, "publish"),
    "published: still locked": after(staging, "publish"),
    "published: before sweeping": before(pipeline, "sweep_builds"),
    "published: before the answer": after(pipeline, "run"),
    "holding the release": before(pipeline, "load_build"),
    "waiting for another": while_waiting,
}


def _small_chunks() -> None:
    """A small city goes in one chunk: make it many, so that there is an amid."""
    for module, name, size in (
        (layout, "BLOCK", 1 << 16),
        (building, "_CHUNK", 1000),
        (table, "_CHUNK", 500),
        (table, "_LINE_ROWS", 500),
    ):
        assert isinstance(getattr(module, name), int), f"{module.__name__}.{name} is gone"
        setattr(module, name, size)


def _child(request: dict[str, Any]) -> None:
    """One command, as a process of its own would run it; it does not outlive the driver."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    output = Path(request["output"])
    for descriptor, name in ((1, "out"), (2, "err")):
        target = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(target, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    marker = Path(request["marker"])

    def pause() -> None:
        marker.touch()
        while marker.exists():
            time.sleep(0.01)

    if request["stop"] is not None:
        _small_chunks()
        MOMENTS[request["stop"]](pause)
    sys.argv = ["freqdp", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main.main()


def serve(warm_up: list[list[str]]) -> None:
    for arguments in warm_up:
        assert main.run([*arguments, "--dsn", sys.argv[1]]) == 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say({"ready": True})
    while True:
        if select.select([0], [], [], 0.01)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            pid = os.fork()
            if pid == 0:
                code = 70
                try:
                    _child(json.loads(line))
                except SystemExit as ended:
                    code = int(ended.code or 0)
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            _say({"pid": pid})
        _reap()


def _reap() -> None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    if pid:
        _say({"pid": pid, "status": os.waitstatus_to_exitcode(status)})


def _say(document: dict[str, Any]) -> None:
    _ANSWERS.write(json.dumps(document) + "\n")
    _ANSWERS.flush()


if __name__ == "__main__":
    # stdout is for the answers alone
    _ANSWERS = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve([["dataset", "build", "city"], ["anonymize", "city", "--method", "lg"]])
