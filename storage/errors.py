"""What storage refuses, as one-sentence exceptions."""


class StorageError(Exception):
    """Base of every error storage raises on purpose; its text is one sentence a person can act on."""
