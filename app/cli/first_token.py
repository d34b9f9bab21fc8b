"""From process start to the first token of an answer, by parts: `python -m octavo.app.cli.first_token STARTED MODEL`.

What `octavo bench startup` starts, as a process of its own. STARTED is the time at which it did, in seconds since 1970;
MODEL is a name or path, or empty for that of the settings. Prints one JSON document.
"""

from __future__ import annotations

import json
import sys
import time


def measure(started: float, model: str) -> dict[str, float]:
    """Seconds of importing the libraries, of loading the model, and from process start to the first token; and what
    loading and the first token added to the process's RAM, beside the size of the weights, in MB of 10^6 bytes."""
    from octavo.app.cli.opening import open_assistant
    from octavo.app.settings import load_settings
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.engine import Engine  # noqa: F401  # torch, and all that it brings
    from octavo.engine.hardware import forget_peak, peak_resident_bytes, resident_bytes

    imported = time.time()
    forget_peak()
    before = resident_bytes()
    assistant, _ = open_assistant(load_settings({"model": model or None, "disk": "off"}))
    loaded, after_loading = time.time(), peak_resident_bytes()
    prompt_ids = assistant.tokenizer.encode("The capital of France is")
    next(assistant.engine.generate(prompt_ids, GenerationPolicy(temperature=0.0, max_tokens=1)))
    return {
        "import_s": round(imported - started, 4),
        "load_s": round(loaded - imported, 4),
        "first_token_s": round(time.time() - started, 4),
        "weights_mb": round(assistant.engine.weight_bytes / 1e6, 1),
        "loading_mb": round((after_loading - before) / 1e6, 1),
        "first_token_mb": round((peak_resident_bytes() - before) / 1e6, 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]), sys.argv[2])))
