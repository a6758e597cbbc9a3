"""A tiny Qwen2 with random weights and a byte-level tokenizer, saved as transformers saves any model.

Run as a script it answers questions with it and records them, so that a test can kill it in the middle:
``python tiny_qwen2.py MODEL_FOLDER RECORD``. It waits for a line on its standard input before each answer.
"""

import sys
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tiny_qwen2(folder: Path, *, tied: bool = False, seed: int = 0) -> Path:
    """Save model, tokenizer, chat template, and a generation config with a penalty that must not act."""
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)

    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.35,
        tie_word_embeddings=tied,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config = GenerationConfig(
        repetition_penalty=1.1, do_sample=True, temperature=0.7, top_k=20, top_p=0.8, eos_token_id=fast.eos_token_id
    )
    model.save_pretrained(folder)
    return folder


def main(model_folder: str, record: str) -> None:
    """Answer nine questions in blocks of two, one step for each line of standard input."""
    from ragfin.corpus import Question
    from ragfin.generation import TransformersGenerator, generate

    class Stepping(TransformersGenerator):
        def answer_many(self, requests):  # type: ignore[no-untyped-def]
            for answer in super().answer_many(requests):
                sys.stdin.readline()
                print(answer.question_id, flush=True)
                yield answer

    questions = [Question(f"QA{i:03}", "R01", f"¿Cuánto {i}?", "", "texto", True, ()) for i in range(9)]
    contexts = [[f"A > {i}\n\nDeuda: {i * i},5."] for i in range(9)]
    generate(questions, Stepping(model_folder, block=2), contexts, record=record, progress=lambda *now: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
