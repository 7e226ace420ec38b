"""The public online learner and its parts."""

from puridiver.learner.learner import Learner

__all__ = ["Learner"]
