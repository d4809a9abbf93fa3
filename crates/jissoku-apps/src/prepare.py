"""What a worker process does before it imports its application."""

import configparser
import json
import logging
import logging.config
import os
from pathlib import Path


def prepare(directory, variables, log_config, log_level):
    """Returns why it has failed, or None. Variables that are set already stay."""
    for name, value in variables:
        os.environ.setdefault(name, value)
    try:
        if directory is not None:
            os.chdir(directory)
    except OSError as error:
        return f"cannot change to {directory}: {error.strerror}"
    if log_config is not None:
        path, content = log_config
        try:
            configure(Path(path), content)
        except Exception as error:  # noqa: BLE001 - a configuration names code
            cause = f": {error.__cause__}" if error.__cause__ else ""
            return f"cannot use {path}: {type(error).__name__}: {error}{cause}"
    if log_level is not None:
        set_level(log_level)
    return None


def configure(path, content):
    """Configures the logging module as uvicorn does, by the suffix of a file.

    The content is that which the server has read: the file may be another one when a worker is
    replaced.
    """
    text = content.decode("utf-8")
    match path.suffix:
        case ".json":
            logging.config.dictConfig(json.loads(text))
        case ".yaml" | ".yml":
            import yaml  # noqa: PLC0415 - it may be missing

            logging.config.dictConfig(yaml.safe_load(text))
        case _:
            parser = configparser.ConfigParser()
            parser.read_string(text, source=str(path))
            logging.config.fileConfig(parser, disable_existing_loggers=False)


def set_level(level):
    """Sets the level of the root logger.

    What it lets through is on standard error until the application configures handlers.
    """
    logging.getLogger().setLevel(level)
    if handler := logging.lastResort:
        handler.setLevel(level)
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
