"""Files of the Hugging Face hub: what it publishes about them, and their bytes, resumed after a break.

Addresses, tokens and errors come from `huggingface_hub`; `HF_ENDPOINT` and `HF_HUB_OFFLINE` are read from
the environment at each use, since that library reads them only once, at import. The bytes are streamed
here, because a `.partial` file of ours must be resumable whichever source began it.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from octavo.app.errors import DownloadError
from octavo.app.models.catalogue import HubSource
from octavo.app.models.files import empty

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # includes looking up the name, which a connect timeout does not bound
STALL_SECONDS = 30.0
_ATTEMPTS_WITHOUT_PROGRESS = 3
_PAUSE_SECONDS = 0.5
_BLOCK = 1 << 18

T = TypeVar("T")


@dataclass(frozen=True)
class RemoteFile:
    """What the hub says about one file: `digest` is its SHA-256 (64 hex digits) or git blob id (40)."""

    path: str
    size: int
    digest: str
    url: str


@dataclass(frozen=True)
class RepoFile:
    """One file in a repository's listing; `size` in bytes, `digest` as in RemoteFile."""

    path: str
    size: int
    digest: str | None


@dataclass(frozen=True)
class Repository:
    """A model repository: the commit that was looked at, its files, the architecture it declares."""

    id: str
    revision: str
    files: tuple[RepoFile, ...]
    architecture: str | None
    license: str | None


def endpoint() -> str:
    """The hub's address, without a trailing slash."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def hub_offline() -> bool:
    """True if the environment forbids any request to the hub."""
    return (os.environ.get("HF_HUB_OFFLINE") or "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def _token() -> str | None:
    """The user's token (HF_TOKEN, or what `hf auth login` stored), unless the user forbade its use."""
    from huggingface_hub import constants, get_token

    return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def remote_file(source: HubSource) -> RemoteFile:
    """Ask the hub about one file.

    Raises:
        DownloadError: no connection, no such file, no permission, or an answer without size and hash.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=endpoint())
    name = f"{source.repo}/{source.file}"
    found = _ask(
        name,
        lambda: get_hf_file_metadata(url, token=_token(), timeout=CONNECT_SECONDS, endpoint=endpoint()),
    )
    digest = (found.etag or "").lower()
    if found.size is None or len(digest) not in (40, 64):
        raise DownloadError(f"the hub at {endpoint()} publishes no size and hash for {name}")
    return RemoteFile(source.file, found.size, digest, found.location)


def repository(repo: str, revision: str = "main") -> Repository:
    """List a model repository.

    Raises:
        DownloadError: no connection, no such repository, or no permission.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint(), token=_token(), library_name="octavo")
    info = _ask(
        repo,
        lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=CONNECT_SECONDS),
    )
    files = tuple(
        RepoFile(item.rfilename, item.size or 0, item.lfs.sha256 if item.lfs else item.blob_id)
        for item in info.siblings or ()
    )
    gguf, config, card = info.gguf or {}, info.config or {}, info.card_data
    architecture = gguf.get("architecture") or config.get("model_type")
    return Repository(repo, info.sha or revision, files, architecture, card.get("license") if card else None)


def append_file(source: HubSource, out: BinaryIO, progress: Callable[[int, int], None]) -> None:
    """Stream what `out` (opened for appending) still lacks; a broken connection is taken up where it broke.

    Raises:
        DownloadError: three attempts in a row brought nothing, or the hub refused.
    """
    failures, most = 0, out.tell()
    while failures < _ATTEMPTS_WITHOUT_PROGRESS:
        # Asked anew each time: the address is signed for an hour, and a slow line takes longer.
        remote = remote_file(source)
        if out.tell() > remote.size:
            empty(out)
        if out.tell() == remote.size:
            return
        reason = _stream(remote, out, progress)
        if out.tell() == remote.size:
            return
        failures = 0 if out.tell() > most else failures + 1
        most = max(most, out.tell())
        time.sleep(_PAUSE_SECONDS * failures)
    raise DownloadError(f"{source.repo}/{source.file} broke off after {out.tell()} bytes ({reason})")


def _stream(remote: RemoteFile, out: BinaryIO, progress: Callable[[int, int], None]) -> str:
    """Append one response's bytes; returns why it ended, which is no news if all bytes came."""
    request = urllib.request.Request(remote.url)  # noqa: S310
    request.add_header("Accept-Encoding", "identity")
    request.add_header("User-Agent", "octavo")
    if (token := _token()) and _host(remote.url) == _host(endpoint()):
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # it never leaves the hub
    start = out.tell()
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=STALL_SECONDS, context=_tls()) as response:  # noqa: S310
            if start and response.status != http.client.PARTIAL_CONTENT:
                empty(out)
            progress(out.tell(), remote.size)
            while out.tell() < remote.size and (block := response.read(_BLOCK)):
                out.write(block)
                progress(out.tell(), remote.size)
    except urllib.error.HTTPError as error:
        if error.code < 500 and error.code != http.client.TOO_MANY_REQUESTS:
            raise DownloadError(f"{remote.path}: the hub answered {error.code} {error.reason}") from None
        return f"the hub answered {error.code}"
    except urllib.error.URLError as error:
        return str(error.reason)
    except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return "the connection was closed"


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc


def _tls() -> ssl.SSLContext:
    """The system's certificates, or the bundle that the environment names for other HTTP clients."""
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or None
    return ssl.create_default_context(cafile=bundle)


def _ask(name: str, call: Callable[[], T]) -> T:
    """Run one request with a deadline and turn the library's errors into sentences."""
    from huggingface_hub import errors

    address = f"the hub at {endpoint()}"
    try:
        return _within(ANSWER_SECONDS, call)
    except errors.GatedRepoError:
        raise DownloadError(
            f"{name} is gated: accept its terms at {endpoint()} and set HF_TOKEN to a token of yours"
        ) from None
    except errors.RepositoryNotFoundError:
        hint = "the token in HF_TOKEN may not see it" if _token() else "a private one needs HF_TOKEN"
        raise DownloadError(f"{address} has no repository for {name} (check the spelling; {hint})") from None
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError):
        raise DownloadError(f"{address} has no file {name}") from None
    except errors.HFValidationError:
        raise DownloadError(f"{name} is not the name of a hub repository (ORG/NAME)") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no status"
        raise DownloadError(f"{address} refused {name} (HTTP {status})") from None
    except Exception as error:  # the transport's own errors differ between versions of the library
        detail = str(error).strip().splitlines()
        reason = detail[0] if detail else type(error).__name__
        raise DownloadError(f"{address} cannot be reached ({reason})") from None


def _within(seconds: float, call: Callable[[], T]) -> T:
    """`call`'s result, or TimeoutError after `seconds`; the thread left behind ends with the process."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="octavo-hub", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError(f"no answer within {seconds:.0f} seconds")
    return outcome[0]
