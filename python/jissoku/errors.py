"""The exceptions of the package: invalid input, and failures of the environment."""


class JissokuError(Exception):
    """Something went wrong that a person can do something about: exit code 1."""


class InputError(JissokuError):
    """What we were asked makes no sense: exit code 2. The message says what would."""


class TargetError(JissokuError):
    """A target did not do its part.

    Attributes:
        stderr: The last lines the target itself wrote, to be shown with the message.
    """

    def __init__(self, message: str, *, stderr: str = "") -> None:
        """Keeps what the target said beside what happened."""
        super().__init__(message)
        self.stderr = stderr
