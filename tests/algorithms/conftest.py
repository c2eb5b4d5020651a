from __future__ import annotations

from hypothesis import settings

settings.register_profile("algorithms", deadline=None, max_examples=150)
settings.load_profile("algorithms")
