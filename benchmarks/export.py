"""Export of a checkpoint with Qwen3-8B's shapes, against copying the same bytes.

    python benchmarks/export.py [--layers 4] [--rounds 3] [--dir FOLDER]

Weights are random bfloat16 numbers; the checkpoint is made by `spader-slime import`'s code. Every
export runs in a process of its own, which says how long it took (its imports left out) and how much
memory it had at most (VmHWM). Both sides end with fsync. With four layers the folder holds 16 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import table

QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where to write; default: a temporary folder")
    parser.add_argument("--child", nargs=3, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(timed_export(*options.child)))
        return
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        compare(Path(name), options.layers, options.rounds)


def compare(folder: Path, layers: int, rounds: int) -> None:
    """Print the table."""
    hf, checkpoint, out = folder / "hf", folder / "megatron", folder / "out"
    largest = make_model(hf, layers)
    subprocess.run([sys.executable, "-c", _IMPORT, str(hf), str(checkpoint)], check=True)
    exports, copies = [], []
    for _ in range(rounds):
        exports.append(in_process(checkpoint, hf, out))
        copies.append(timed_copy(out, folder / "copy"))
        size = sum(file.stat().st_size for file in out.iterdir())
        shutil.rmtree(out)
    seconds, copied = min(e["seconds"] for e in exports), min(copies)
    rows = [
        ["export", f"{seconds:.2f}", f"{size / seconds / 1e9:.2f}", f"{seconds / copied:.2f}"],
        ["file copy", f"{copied:.2f}", f"{size / copied / 1e9:.2f}", "1.00"],
    ]
    print(table([f"{size / 1e9:.2f} GB", "s", "GB/s", "ratio"], rows))
    peak = max(e["peak"] for e in exports)
    limit = 2e9 + largest
    print(f"peak memory {peak / 1e9:.2f} GB; bound {limit / 1e9:.2f} GB (2 GB + largest tensor)")


def make_model(folder: Path, layers: int) -> int:
    """Random weights in Hugging Face's format; bytes of the largest tensor."""
    import torch

    from spader_slime.checkpoints.mapping import hf_shapes
    from spader_slime.checkpoints.safetensors_files import SINGLE, Slot, plan_shards, write_tensor
    from spader_slime.megatron.shape import ModelConfig
    from spader_slime.megatron.weights import parameters

    folder.mkdir()
    values = {**QWEN3_8B, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(values))
    config = ModelConfig.read(folder)
    slots = [
        Slot(name, shape, torch.bfloat16)
        for parameter in parameters(config)
        for name, shape in zip(parameter.hf, hf_shapes(parameter, config), strict=True)
    ]
    (shard,) = plan_shards([slots], 1 << 60)
    with open(folder / SINGLE, "wb") as file:
        file.write(shard.header)
        file.flush()
        for slot in shard.slots.values():
            bits = torch.randint(-(2**15), 2**15, slot.shape, dtype=torch.int16) & ~0x4000
            write_tensor(file.fileno(), slot, bits.view(torch.bfloat16), lambda _: None)
    return max(slot.nbytes for slot in slots)


_IMPORT = """
import sys; from pathlib import Path
from spader_slime.checkpoints.hf_import import ImportOptions, import_hf
import_hf(ImportOptions(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def in_process(checkpoint: Path, hf: Path, out: Path) -> dict[str, float]:
    """`timed_export` in a process of its own."""
    call = [sys.executable, __file__, "--child", str(checkpoint), str(hf), str(out)]
    done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def timed_export(checkpoint: Path, hf: Path, out: Path) -> dict[str, float]:
    """Seconds and peak memory in bytes of one export."""
    from spader_slime.checkpoints.export import export
    from spader_slime.checkpoints.export_plan import ExportOptions

    start = time.perf_counter()
    export(ExportOptions(checkpoint, hf, out))
    seconds = time.perf_counter() - start
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return {"seconds": seconds, "peak": int(peak) * 1024}


def timed_copy(source: Path, target: Path) -> float:
    """Seconds to copy a folder's files and have them on the disk."""
    start = time.perf_counter()
    target.mkdir()
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)
        with open(target / file.name, "rb") as written:
            os.fsync(written.fileno())
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


if __name__ == "__main__":
    main()
