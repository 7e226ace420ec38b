"""Policies of strong augmentation, found by listing this folder; the strong view adds one to crop and flip."""

from puridiver.augment.base import Policy
from puridiver.discovery import members

POLICIES = {name: kind() for name, kind in members(__name__, Policy).items()}  # type: ignore[type-abstract]
