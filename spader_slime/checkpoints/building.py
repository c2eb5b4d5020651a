"""Output folders that appear under their name only when they are complete."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spader_slime.errors import CheckpointError
from spader_slime.megatron.export import swap_in, sync, sync_files

_PLAN = "plan.json"
_PORTION = 16 << 20  # bytes that are copied at once
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def building(target: Path, plan: Any) -> Iterator[Path]:
    """A folder beside `target` to write to; it takes the name at the end.

    A process that is killed, or a full disk, leaves the hidden folder; with the same plan the next
    attempt finds what was finished in it. A CheckpointError inside removes it.

    Args:
        target: the final name, as `check_target` gives it.
        plan: JSON values that say what is written; files of another plan are thrown away.

    Raises:
        CheckpointError: another process is writing it, or the disk is full.
    """
    beside = target.with_name(f".{target.name}.part")
    with _full_disk(target, beside):
        beside.mkdir(parents=True, exist_ok=True)
        with _alone(beside):
            _keep_or_clear(beside, json.dumps(plan, sort_keys=True))
            try:
                yield beside
            except CheckpointError:
                shutil.rmtree(beside)
                raise
            (beside / _PLAN).unlink()
            sync_files(beside)
            swap_in(beside, target)


@contextmanager
def _full_disk(target: Path, beside: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        for unfinished in beside.rglob("*.tmp"):
            unfinished.unlink()
        raise CheckpointError(
            f"{target}: no space left ({error.strerror}); finished files stay in {beside}, "
            "and the same command goes on from them"
        ) from error


def check_target(target: Path, replace: bool, mark: str, sources: Sequence[Path]) -> Path:
    """The absolute path of a folder that may be made.

    Args:
        replace: whether an earlier output may be replaced.
        mark: a file that every output has; nothing else is ever replaced.
        sources: what is read meanwhile.

    Raises:
        CheckpointError: the folder may not be made.
    """
    target = target.resolve()
    for source in sources:
        if source.resolve().is_relative_to(target):
            raise CheckpointError(f"{target} can't be the output: {source} is read from there")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return target
    if not (target / mark).is_file():
        raise CheckpointError(f"{target} is there already and was not made by this command")
    if not replace:
        raise CheckpointError(f"{target} is there already; --force replaces it")
    return target


@contextmanager
def file_errors() -> Iterator[None]:
    """A file that can't be read or written is a CheckpointError; also a decorator."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise CheckpointError(f"{where}{error.strerror or error}") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise CheckpointError(f"{folder}: another process is writing there") from error
    finally:
        os.close(handle)


def _keep_or_clear(folder: Path, plan: str) -> None:
    path = folder / _PLAN
    if path.exists() and path.read_text(encoding="utf-8") == plan:
        return
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    path.write_text(plan, encoding="utf-8")
    sync(path)


def check_space(folder: Path, needed: int) -> None:
    """Raise OSError if `needed` more bytes do not fit where `folder` lies."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed / 1e9:.2f} GB needed, {free / 1e9:.2f} GB free")


@contextmanager
def file_of(path: Path, size: int | None = None) -> Iterator[int]:
    """A new file (its descriptor) that gets its name when all of it has reached the disk."""
    unfinished = path.with_name(path.name + ".tmp")
    handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if size is not None:
            os.truncate(handle, size)
        yield handle
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(unfinished, path)


def write_all(handle: int, data: memoryview, at: int) -> None:
    """Write bytes at an offset, however many calls it takes."""
    while data:
        count = os.pwrite(handle, data, at)
        data, at = data[count:], at + count


def copy_bytes(path: str, start: int, count: int, handle: int, at: int) -> None:
    """Copy a part of a file to an offset of another, in the kernel where it can.

    Raises:
        CheckpointError: the file ends before.
    """
    with open(path, "rb", buffering=0) as source:
        while count:
            done = _copy_some(source.fileno(), start, min(count, _PORTION), handle, at)
            if not done:
                raise CheckpointError(f"{path} became shorter while it was read")
            start, at, count = start + done, at + done, count - done


def _copy_some(source: int, start: int, count: int, handle: int, at: int) -> int:
    try:
        if done := os.copy_file_range(source, handle, count, start, at):
            return done
    except AttributeError:
        pass  # not a Linux
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    data = os.pread(source, count, start)
    write_all(handle, memoryview(data), at)
    return len(data)
