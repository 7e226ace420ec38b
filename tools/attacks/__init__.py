"""The attacks of `tools/attack.py`."""
