"""What the engine refuses, as one-sentence exceptions that name the thing and say what to do."""


class EngineError(Exception):
    """Base of every error the engine raises on purpose; its text is one sentence a person can act on."""


class ModelFileError(EngineError):
    """A model file or folder is missing, truncated or inconsistent."""


class UnsupportedModelError(EngineError):
    """A model is well formed, but its architecture, tensors or quantization are not supported."""


class PolicyError(EngineError):
    """A field of a generation policy is out of its range."""


class ContextTooLongError(EngineError):
    """A prompt and its reserved answer do not fit the context of the model or the pages of the pool."""


class OutOfPagesError(EngineError):
    """The KV page pool has no free slot left for a request that was not admitted."""
