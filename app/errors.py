"""Errors of the application's own making; the command line prints their text and exits with `exit_code`."""


class AppError(Exception):
    """Base of every error the application raises on purpose; its text is one sentence a person can act on."""

    exit_code = 1


class SettingsError(AppError):
    """A settings key, value or file is wrong."""

    exit_code = 2


class ModelNotFoundError(AppError):
    """No model of that name, hash or path is known."""


class DownloadError(AppError):
    """No source delivered a model file."""


class IntegrityError(AppError):
    """A file's SHA-256 is not the one in the catalogue."""
