"""Reads everything that the checks look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from spader_slime.config import SpaderConfig, load_spader
from spader_slime.doctor.data_files import named_files, read_rows
from spader_slime.doctor.facts import Facts, Reading
from spader_slime.doctor.flags import Flags, read_flags
from spader_slime.doctor.machine import read_disk, read_machine, what_is_there
from spader_slime.doctor.model import ModelShape, read_shape
from spader_slime.doctor.probing import probe_all
from spader_slime.doctor.teacher_probing import probe_teachers
from spader_slime.errors import ConfigError, SpaderError

PATHS = ("hf-checkpoint", "load", "ref-load", "save", "custom-config-path", "opd-teacher-load")


def gather(config_path: Path, slime_args: Sequence[str]) -> Facts:
    """All facts; what can't be read says why."""
    keys, config = _config(config_path)
    flags = read_flags(slime_args)
    data = tuple(read_rows(file) for file in named_files(flags))
    tokenizer = _tokenizer(flags)
    return Facts(
        config_path=config_path,
        keys=keys,
        config=config,
        flags=flags,
        machine=read_machine(),
        model=_model(flags),
        tokenizer=tokenizer,
        data=data,
        searches=probe_all(config.value.search, data) if config.value else (),
        teachers=probe_teachers(config.value.distillation, tokenizer)
        if config.value
        else Reading(),
        disk=read_disk(flags.text("save")),
        paths={name: what_is_there(path) for name in PATHS if (path := flags.text(name))},
    )


def _as_slime_reads(path: Path) -> dict[Any, Any]:
    """slime takes the file as plain YAML: no `${...}` is filled in."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError("--config", str(path), f"a readable YAML file ({error})") from error
    if not isinstance(loaded, dict):
        raise ConfigError("--config", str(path), "a YAML mapping with the key `spader`")
    return loaded


def _config(path: Path) -> tuple[tuple[str, ...], Reading[SpaderConfig]]:
    """The file's top-level keys, and what is under `spader:`."""
    keys: tuple[str, ...] = ()
    try:
        loaded = _as_slime_reads(path)
        keys = tuple(map(str, loaded))
        return keys, Reading(load_spader(loaded.get("spader")))
    except SpaderError as error:
        return keys, Reading(missing=str(error))


def _model(flags: Flags) -> Reading[ModelShape]:
    folder = flags.text("hf-checkpoint")
    if not folder:
        return Reading(missing="--hf-checkpoint is not given")
    try:
        return Reading(read_shape(Path(folder).expanduser()))
    except SpaderError as error:
        return Reading(missing=str(error))


def _tokenizer(flags: Flags) -> Reading[Any]:
    """The tokenizer on disk; nothing is downloaded and no code of the folder is run."""
    folder = flags.text("hf-checkpoint")
    if not folder or not Path(folder).expanduser().is_dir():
        return Reading(missing="--hf-checkpoint is no folder here")
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return Reading(missing="transformers is missing: pip install transformers")
    try:
        path = str(Path(folder).expanduser())
        return Reading(AutoTokenizer.from_pretrained(path, local_files_only=True))
    except Exception as error:  # whatever the files make transformers raise
        return Reading(missing=f"transformers can't load it: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
