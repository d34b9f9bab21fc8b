"""The C kernels under AddressSanitizer and UndefinedBehaviorSanitizer: `python tests/engine/kernels/sanitized.py`.

Builds them anew with gcc, in a folder that goes away, and makes the checks of reference_checks.py, block_checks.py and
decode_checks.py with each instruction set that this processor has. Exits with an error where a check fails, or a
sanitizer finds something.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MODULE = "octavo.engine.kernels._native"
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
# CPython itself gives memory back only when the process ends, and torch loads libraries that do not match.
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def missing() -> str | None:
    """Why this cannot run here, None where it can."""
    if shutil.which("gcc") is None:
        return "there is no gcc"
    return None if all(Path(library).is_absolute() for library in libraries()) else "gcc has no libasan or libubsan"


def libraries() -> list[str]:
    """The sanitizers' own, which have to be loaded before Python."""
    names = ("libasan.so", "libubsan.so")
    return [_output("gcc", f"-print-file-name={name}") for name in names]


def build(folder: Path) -> Path:
    """The extension as pyproject.toml describes it, but for optimisation, with sanitizers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    plain = [flag for flag in extension["extra-compile-args"] if not flag.startswith("-O")]
    module = folder / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [str(ROOT / source) for source in extension["sources"]]
    include = f"-I{sysconfig.get_paths()['include']}"
    subprocess.run(["gcc", *plain, *FLAGS, "-fPIC", "-shared", include, *sources, "-o", module], check=True)
    return module


def check(module: Path) -> None:
    """In a process of its own, with the sanitizers: all checks with each instruction set."""
    spec = importlib.util.spec_from_file_location(MODULE, module)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[MODULE] = native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    sys.path.insert(0, str(HERE))
    sys.argv[1:] = ["native"]
    import block_checks
    import decode_checks
    import reference_checks

    for isa in ("portable", "avx2", "avx512", "amx"):
        try:
            native.Ops(isa)
        except ValueError:
            print(f"{isa}: not on this processor")
            continue
        os.environ["OCTAVO_NATIVE_ISA"] = isa
        if reference_checks.main() or block_checks.main() or decode_checks.main():
            sys.exit(1)
        print(f"{isa}: nothing found")


def main() -> None:
    if len(sys.argv) > 1:
        check(Path(sys.argv[1]))
        return
    if why := missing():
        sys.exit(f"The sanitizers cannot run: {why}.")
    with tempfile.TemporaryDirectory(prefix="octavo-sanitized-") as folder:
        environment = {**os.environ, **OPTIONS, "LD_PRELOAD": " ".join(libraries())}
        subprocess.run([sys.executable, __file__, build(Path(folder))], env=environment, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
