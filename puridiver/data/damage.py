"""What reading a damaged .npz file may raise."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

# By zipfile and NumPy at damaged bytes: a header that is no Python literal, a shape that fills the memory, members that
# look encrypted or oddly compressed (RuntimeError).
DAMAGE = (
    ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, MemoryError, RuntimeError,
    tokenize.TokenError, SyntaxError,
)  # fmt: skip
