"""Measure the generation of answers in blocks against the plain loop and against what the machine's arithmetic allows.

In one run: (a) the plain loop, transformers' ``generate`` on one question after the other; (b) the block engine in
float32; (c) the block engine in bfloat16, where asked for. Questions are spread evenly over the corpus, with the three
chunks that BM25 finds. Plain loop and blocks are measured in turns, a part of the questions at a time, so that a load
from outside falls on both; the processor's seconds, which such a load lengthens less, stand beside the clock's. The
arithmetic limit is the fastest of several products of two 2048 x 2048 matrices, measured before and after, over the
multiply-adds of the model's weight matrices for the prompt tokens computed.

    python -m benchmarks.bench_generation --n 32
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ragfin import load_corpus
from ragfin.chunking import chunk_corpus
from ragfin.local_llm import Dtype, TransformersGenerator, patient_threads
from ragfin.prompts import RAG_PROMPT, Request
from ragfin.records import Answer
from ragfin.retrieval import BM25Retriever

MODEL = "qwen2.5-coder-0.5b-instruct"
CACHE_STEPS = 16


def requests(n: int) -> list[Request]:
    """Return the requests of n questions, spread evenly over the corpus."""
    corpus = load_corpus()
    everything = list(corpus)
    n = min(n, len(everything))
    chosen = [everything[i * len(everything) // n] for i in range(n)]
    found = BM25Retriever(chunk_corpus(corpus)).search_many([question.text for question in chosen])
    return [RAG_PROMPT.request(q, [hit.chunk.text for hit in hits]) for q, hits in zip(chosen, found, strict=True)]


def matmul_rates(dtype: Dtype, size: int = 2048, repeats: int = 8) -> tuple[float, float]:
    """Return the machine's rate for a matrix product, the fastest of several.

    Returns
    -------
    float, float
        Multiply-adds a second of the clock, and a second of the processor (all threads together).
    """
    import torch

    x = torch.rand(size, size).to(getattr(torch, dtype))
    clock, processor = [], []
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        torch.mm(x, x)
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_cpu)
    return size**3 / min(clock), size**3 / min(processor)


def timed(ask: Any, asked: Sequence[Request]) -> tuple[list[Answer], float, float]:
    """Return the answers, the seconds that they took, and the processor's seconds over all threads."""
    start, start_cpu = time.perf_counter(), time.process_time()
    answers = list(ask(asked))
    return answers, time.perf_counter() - start, time.process_time() - start_cpu


def prefill_and_decode(generator: TransformersGenerator, asked: Sequence[Request]) -> dict[str, float]:
    """Measure prefill and decode of one block apart; return tokens, seconds and multiply-adds of each."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    engine = generator._engine(asked[0].messages[:-1])
    assert engine is not None
    prompts = [generator.loaded.prompt_ids(request.messages) for request in asked]
    start, start_cpu = time.perf_counter(), time.process_time()
    cache, hidden = engine.prefill(prompts, CACHE_STEPS)
    prefill, prefill_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    with torch.inference_mode():
        tokens = F.linear(hidden, engine.head).argmax(-1)
        start = time.perf_counter()
        for _ in range(CACHE_STEPS):
            tokens = F.linear(engine.step(tokens, cache), engine.head).argmax(-1)
        decode = time.perf_counter() - start
    computed = sum(len(prompt) - engine.shared(prompt) for prompt in prompts)
    return {
        "prefill tokens": computed,
        "prefill seconds": prefill,
        "prefill processor": prefill_cpu,
        "prefill macs": engine.prefill_multiply_adds(prompts),
        "decode tokens": len(asked) * CACHE_STEPS,
        "decode seconds": decode,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the measurement and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--n", type=int, default=32, help="questions; more than there are means all")
    parser.add_argument("--block", type=int, default=16, help="questions decoded together")
    parser.add_argument("--turn", type=int, default=16, help="questions that each way answers before the other's turn")
    parser.add_argument("--no-bfloat16", action="store_true")
    options = parser.parse_args(arguments)
    patient_threads()
    try:
        import torch
    except ImportError:
        print("bench_generation: PyTorch is not installed; run `make llm`")
        return
    generator = TransformersGenerator(options.model, block=options.block)
    if reason := generator.unavailable():
        print(f"bench_generation: {reason}")
        return

    asked = requests(options.n)
    lengths = [len(generator.loaded.prompt_ids(request.messages)) for request in asked]
    ways: dict[str, Any] = {
        "plain loop, float32": lambda part: map(generator.answer, part),
        f"blocks of {options.block}, float32": lambda part: in_blocks(generator, part, options.block),
    }
    rates = {"float32": [matmul_rates("float32")]}
    generator.answer(asked[0])
    list(generator.answer_many(asked[:1]))  # the shared prefix is computed here, once
    if not options.no_bfloat16:
        fast = TransformersGenerator(options.model, dtype="bfloat16", block=options.block)
        list(fast.answer_many(asked[:1]))
        rates["bfloat16"] = [matmul_rates("bfloat16")]
        ways[f"blocks of {options.block}, bfloat16"] = lambda part: in_blocks(fast, part, options.block)

    answers: dict[str, list[Answer]] = {way: [] for way in ways}
    seconds, processor = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for start in range(0, len(asked), options.turn):
        for way, ask in ways.items():
            made, spent, worked = timed(ask, asked[start : start + options.turn])
            answers[way] += made
            seconds[way] += spent
            processor[way] += worked
            print(f"  {way}: {len(answers[way])} of {len(asked)}, {seconds[way]:.0f} s", file=sys.stderr)

    plain = next(iter(ways))
    stages = {"float32": prefill_and_decode(generator, asked[: options.block])}
    rates["float32"].append(matmul_rates("float32"))
    if not options.no_bfloat16:
        stages["bfloat16"] = prefill_and_decode(fast, asked[: options.block])
        rates["bfloat16"].append(matmul_rates("bfloat16"))

    table = Table(title=f"{options.model}, {len(asked)} questions, {torch.get_num_threads()} threads")
    for column in ("way", "answers/min", "to the plain loop", "by processor time", "same text as the plain loop"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way in ways:
        same = sum(a.text == b.text for a, b in zip(answers[way], answers[plain], strict=True))
        table.add_row(
            way,
            f"{60 * len(asked) / seconds[way]:.1f}",
            f"{seconds[plain] / seconds[way]:.2f}",
            f"{processor[plain] / processor[way]:.2f}",
            f"{same} of {len(asked)}",
        )
    parts = Table(title=f"One block of {min(options.block, len(asked))}")
    for column in (
        "arithmetic",
        "prefill tokens/s",
        "decode tokens/s",
        "GFLOP/s in prefill",
        "GFLOP/s matmul",
        "share of the limit",
        "by processor time",
    ):
        parts.add_column(column, justify="left" if column == "arithmetic" else "right")
    for dtype, stage in stages.items():
        rate = stage["prefill macs"] / stage["prefill seconds"]
        limit, limit_cpu = (max(column) for column in zip(*rates[dtype], strict=True))
        parts.add_row(
            dtype,
            f"{stage['prefill tokens'] / stage['prefill seconds']:.0f}",
            f"{stage['decode tokens'] / stage['decode seconds']:.0f}",
            f"{2 * rate / 1e9:.0f}",
            f"{2 * limit / 1e9:.0f}",
            f"{rate / limit:.2f}",
            f"{stage['prefill macs'] / stage['prefill processor'] / limit_cpu:.2f}",
        )
    console = Console(width=120)
    console.print(table)
    console.print(parts)
    new = [answer.completion_tokens for answer in answers[plain]]
    engine = generator._engine(asked[0].messages[:-1])
    shared = len(engine.prefix) if engine is not None else 0
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    console.print(
        f"Prompts of {min(lengths)} to {max(lengths)} tokens (median {statistics.median(lengths):.0f}), "
        f"{shared} of them shared; {min(new)} to {max(new)} new tokens (mean {statistics.mean(new):.1f}). "
        f"Peak memory {peak:.1f} GiB{'' if options.no_bfloat16 else ', both models in memory'}."
    )


def in_blocks(generator: TransformersGenerator, asked: Sequence[Request], size: int) -> list[Answer]:
    """Answer in blocks of a size."""
    return [a for i in range(0, len(asked), size) for a in generator.answer_many(asked[i : i + size])]


if __name__ == "__main__":
    main()
