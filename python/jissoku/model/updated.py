"""A frozen value with some fields changed: `updated(trial, attempt=1)`."""

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    # Type checkers check names and types of the fields, also of records.
    from dataclasses import replace as updated
else:

    def updated(value: Any, /, **changes: Any) -> Any:
        """Copies a record or a dataclass, with some of its fields changed.

        Raises:
            TypeError: It has no such field.
        """
        replace = msgspec.structs.replace if isinstance(value, msgspec.Struct) else None
        return (replace or dataclasses.replace)(value, **changes)


__all__ = ["updated"]
