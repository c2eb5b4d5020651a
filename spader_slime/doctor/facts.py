"""What the checks are given: everything that was read from files, services and this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from spader_slime.config import SpaderConfig
from spader_slime.doctor.flags import Flags
from spader_slime.doctor.model import ModelShape
from spader_slime.episode import Document

T = TypeVar("T")


@dataclass(frozen=True)
class Reading(Generic[T]):
    """Something that was read, or why it could not be."""

    value: T | None = None
    missing: str = ""


@dataclass(frozen=True)
class DataFile:
    """Rows of a prompt file, as slime would load them.

    Attributes:
        name: "train", or the evaluation set's name.
        path: as given, a slice `@[a:b]` included.
        input_key, label_key, metadata_key, tool_key: columns that slime reads.
        rows: at most `data_files.MAX_ROWS` rows with the columns that slime reads.
        columns: all columns.
        complete: whether `rows` are all there are.
        unreadable: lines that are not JSON objects; slime skips them.
        fault: why nothing could be read, or "".
    """

    name: str
    path: str
    input_key: str
    label_key: str | None
    metadata_key: str = "metadata"
    tool_key: str = "tools"
    rows: tuple[Mapping[str, Any], ...] = ()
    columns: tuple[str, ...] = ()
    complete: bool = True
    unreadable: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Probe:
    """What one search address answered.

    Attributes:
        url: the address.
        kind, message: the fault that ended the probe, "" where there was none.
        latencies_s: seconds of each of the first calls, one after the other.
        burst_s: seconds of each of the calls made at the same time.
        queries: what was asked, one query a call.
        documents: what came back for each of them.
    """

    url: str
    kind: str = ""
    message: str = ""
    latencies_s: tuple[float, ...] = ()
    burst_s: tuple[float, ...] = ()
    queries: tuple[str, ...] = ()
    documents: tuple[tuple[Document, ...], ...] = ()


@dataclass(frozen=True)
class TeacherProbe:
    """What one server of a teacher answered.

    Attributes:
        url: the address.
        kind, message: the fault that ended the probe, "" where there was none.
        seconds: of one call that scored a few ids.
    """

    url: str
    kind: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Disk:
    """Where checkpoints go: the folder that exists, its free bytes, whether we may write there."""

    folder: Path
    free_bytes: int
    writable: bool


@dataclass(frozen=True)
class Machine:
    """This machine.

    Attributes:
        python: version of the interpreter, (major, minor).
        versions: distribution -> version; "" where it is not installed, "?" where it can be
            imported and has no version.
        gpus: names of the GPUs that can be seen.
    """

    python: tuple[int, int]
    versions: Mapping[str, str]
    gpus: Reading[tuple[str, ...]]


@dataclass(frozen=True)
class Facts:
    """All that the checks look at.

    Attributes:
        config_path: the YAML file.
        keys: its top-level keys.
        config: what is under `spader:`.
        flags: slime's and Megatron's command line.
        model: numbers of the model's config.json.
        tokenizer: the model's tokenizer.
        data: the training file and the evaluation files.
        searches: one probe per search address.
        teachers: one probe per server of the teacher; none where there is no teacher.
        disk: where checkpoints go; None without --save.
        paths: path flag -> what is there: "missing", "file", "empty", "folder", "hf" (has a
            config.json) or "megatron" (has a latest_checkpointed_iteration.txt).
    """

    config_path: Path
    keys: tuple[str, ...]
    config: Reading[SpaderConfig]
    flags: Flags
    machine: Machine
    model: Reading[ModelShape] = field(default_factory=Reading)
    tokenizer: Reading[Any] = field(default_factory=Reading)
    data: tuple[DataFile, ...] = ()
    searches: tuple[Probe, ...] = ()
    teachers: Reading[tuple[TeacherProbe, ...]] = field(default_factory=Reading)
    disk: Disk | None = None
    paths: Mapping[str, str] = field(default_factory=dict)
