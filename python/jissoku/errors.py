"""The exceptions of the package: invalid input, and failures of the environment."""


class JissokuError(Exception):
    """Something went wrong that a person can do something about: exit code 1."""


class InputError(JissokuError):
    """Invalid input: exit code 2. The message says what is valid."""


class RecordError(JissokuError):
    """A run's records cannot be written any more; those before can be read."""


class TargetError(JissokuError):
    """A target did not do its part.

    Attributes:
        stderr: The last lines the target itself wrote, to be shown with the message.
    """

    def __init__(self, message: str, *, stderr: str = "") -> None:
        """Stores the target's output with the message."""
        super().__init__(message)
        self.stderr = stderr


class TargetEnded(TargetError):  # noqa: N818 - it says what happened
    """A target's process has ended by itself."""


class HostLost(JissokuError):  # noqa: N818 - it says what happened
    """The host of the targets cannot be reached any more; what was measured before can be read."""
