"""What slime's own converter asks of the `.metadata` that `spader-slime import` writes."""

from __future__ import annotations

import pickle
from pathlib import Path

from support.families import save_hf
from torch.distributed.checkpoint.metadata import StorageMeta

from spader_slime.cli import main


def test_slimes_converter_finds_storage_meta(tmp_path: Path) -> None:
    """It sets `load_id` there; where there is none it asks torch for a name that torch has not."""
    hf = save_hf("qwen3", tmp_path / "hf")
    assert main(["import", "--hf", str(hf), "--out", str(tmp_path / "mcore")]) == 0
    metadata = pickle.loads((tmp_path / "mcore/release/.metadata").read_bytes())
    assert isinstance(metadata.storage_meta, StorageMeta)
