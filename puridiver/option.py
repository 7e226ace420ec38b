"""What one option may be: a default, which tells its type, and bounds or choices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

KINDS = (bool, int, float, str)
_SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


@dataclass(frozen=True)
class Option:
    """An option of a recipe, or of a method (`own_options`): `Option(0.7, "the power", low=0.01, high=1)`."""

    default: bool | int | float | str
    help: str = ""
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    def checked(self, name: str, value: Any) -> Any:
        """The value in the option's own type, or a ValueError that says what is allowed."""
        kind: Any = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f"option {name} should be {kind.__name__}, but got {value!r}")
        if self.choices and value not in self.choices:
            raise ValueError(f"option {name} should be one of {', '.join(self.choices)}, but got {value!r}")
        if isinstance(value, int | float) and not (self.low <= value <= self.high and abs(value) < math.inf):
            bound = (
                f"at least {self.low}" if value < self.low
                else f"at most {self.high}" if self.high < math.inf
                else "finite"
            )  # fmt: skip
            raise ValueError(f"option {name} should be {bound}, but got {value}")
        return value

    def parsed(self, name: str, text: str) -> Any:
        """The value of `--set name=text` in the option's type."""
        kind: type = type(self.default)
        if kind is bool:
            if text.lower() not in _SWITCHES:
                raise ValueError(f"option {name} should be true or false, but got {text!r}")
            return _SWITCHES[text.lower()]
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"option {name} should be {kind.__name__}, but got {text!r}") from None


def option_field(
    default: Any,
    help: str,
    choices: tuple[str, ...] = (),
    low: float = -math.inf,
    high: float = math.inf,
    off: Any = 0,
    later: bool = False,
) -> Any:
    """An option as a field of a dataclass; `off` is the value at which what it decides is switched off.

    One that came `later`, when there were ledgers, does not enter the hashes of settings while it is at its default:
    runs from before it keep theirs.
    """
    kind = Option(default, help, choices, low, high)
    kept = {"kind": kind, "help": help, "choices": choices, "low": low, "high": high, "off": off, "later": later}
    return field(default=default, metadata=kept)
