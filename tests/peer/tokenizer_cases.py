"""What the `tokenizers` package, Python and numpy do, for tests/integration/data_peer_test.cpp.

    python tokenizer_cases.py DOCS_FOLDER OUT_FOLDER

Trains byte-level BPE models on the project's own docs and writes, for each, NAME.json (the
tokenizer) and NAME_cases.json: [[text, tokens, tokens with the template]], and
NAME_decodes.json: [[tokens, text]]. Also token files of all formats, written with numpy, bytes
that are no UTF-8, texts in normalization form C, and the classes of all code points.
"""

import json
import random
import struct
import sys
from pathlib import Path

import numpy
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import unicode_tables  # noqa: E402

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEP_SEEK = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
             "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|"
             "\\s+(?!\\S)|\\s+")


def byte_level(use_regex=False, space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=use_regex)


def split(*patterns):
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*parts, byte_level()])


def template(token):
    return processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, 0)])


def digits():
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(use_regex=True)])


# name -> (pre-tokenizer, normalizer, first special token, how many strings)
KINDS = {
    "gpt2": (byte_level(use_regex=True), None, "<|endoftext|>", 10_000),
    "gpt2_space": (byte_level(use_regex=True, space=True), None, "<|endoftext|>", 1000),
    "gpt2_split": (split(GPT2), None, "<|endoftext|>", 1000),
    "llama3": (split(LLAMA3), None, "<|begin_of_text|>", 10_000),
    "qwen2": (split(LLAMA3.replace("{1,3}", "")), normalizers.NFC(), "<|endoftext|>", 1000),
    "digits": (digits(), None, "<|endoftext|>", 1000),
    "deep_seek": (split(*DEEP_SEEK), None, "<s>", 1000),
}


def train(name, files):
    pre_tokenizer, normalizer, first, _ = KINDS[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train(files, trainers.BpeTrainer(
        vocab_size=1500, special_tokens=[first, "<|eot|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens(["schedule", AddedToken("<plain>", normalized=False)])
    tokenizer.add_special_tokens([
        AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True),
        AddedToken("<both>", lstrip=True, rstrip=True), AddedToken("<|eot|>x")])
    tokenizer.post_processor = template(first)
    if name == "llama3":
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template(first)])
    return tokenizer


SCRIPTS = ((0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF),
           (0x5D0, 0x5EA), (0x620, 0x669), (0x900, 0x97F), (0xE00, 0xE5B), (0x3040, 0x30FF),
           (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0x2000, 0x2BFF),
           (0x300, 0x36F), (0x1D400, 0x1D7FF), (0, 0x1F), (0x80, 0x10FFFF))
SPACES = (" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\n  ", "\xa0", "\u3000", "\u2003",
          "\x85", "\x0b", "\x1c", " \t\n\r ")
WORDS = ("it's", "we'll", "I'VE", "they'Re", "'ſ", "don't", "'", "''", "x'", "'llx", "'M", "Ǆ",
         "e\u0301", "👩‍👩‍👧", "🇩🇪", "1234567", "3.14", "x2", "²³", "Ⅷ", "٣٤٥", "_a_", "--", "...", "(foo)",
         "foo.bar()", "http://a.b/c?d=e&f", "schedule", "reschedules", "Scheduled", "<plain>",
         "<left>", "<right>", "<both>", "<|eot|>", "<|eot|>x", "<|eot", "<|endoftext|>",
         "<|begin_of_text|>", "<s>", "\u200b", "\ufeff", "\ufffd", "日本語", "漢字かな", "한국어", "a" * 40)


def random_text(generator, docs):
    parts = []
    for _ in range(generator.choice((0, 1, 2, 3, 5, 8, 13))):
        kind = generator.random()
        if kind < 0.25:
            parts.append(generator.choice(SPACES))
        elif kind < 0.5:
            parts.append(generator.choice(WORDS))
        elif kind < 0.75:
            low, high = generator.choice(SCRIPTS)
            points = (generator.randint(low, high) for _ in range(generator.randint(1, 6)))
            parts.append("".join(chr(p) for p in points if not 0xD800 <= p <= 0xDFFF))
        else:
            start = generator.randrange(len(docs) - 80)
            parts.append(docs[start:start + generator.randint(1, 80)])
    return "".join(parts)


def write(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def write_tokenizer(name, files, docs, out):
    generator = random.Random(name)
    tokenizer = train(name, files)
    tokenizer.save(str(out / f"{name}.json"))
    texts = [random_text(generator, docs) for _ in range(KINDS[name][3])]
    texts += [docs[:20000], " " * 3000 + "x", "ab" * 2000, "\n" * 1000]
    cases = []
    for text in texts:
        with_template = tokenizer.encode(text).ids
        cases.append([text, tokenizer.encode(text, add_special_tokens=False).ids, with_template])
    write(out / f"{name}_cases.json", cases)
    size = tokenizer.get_vocab_size()
    decodes = [[generator.randrange(size) for _ in range(generator.randint(0, 12))]
               for _ in range(1000)] + [tokens for _, tokens, _ in cases[:1000]]
    write(out / f"{name}_decodes.json",
          [[ids, tokenizer.decode(ids, skip_special_tokens=False)] for ids in decodes])


def write_token_files(out):
    """NAME -> its tokens, in token_files.json."""
    generator = numpy.random.default_rng(3)
    tokens = generator.integers(0, 120, 1000)
    tokens.astype(numpy.uint16).tofile(out / "nano.bin")
    for name, magic, version, kind in (("small", 20240520, 1, numpy.uint16),
                                       ("large", 20240801, 7, numpy.uint32)):
        header = numpy.zeros(256, dtype=numpy.int32)
        header[:3] = magic, version, len(tokens)
        with open(out / f"{name}.bin", "wb") as file:
            file.write(header.tobytes())
            file.write(tokens.astype(kind).tobytes())
    kinds = {1: numpy.uint8, 2: numpy.int8, 3: numpy.int16, 4: numpy.int32, 5: numpy.int64,
             8: numpy.uint16}
    lengths = numpy.array([100, 0, 250, 650], dtype=numpy.int32)
    for code, kind in kinds.items():
        tokens.astype(kind).tofile(out / f"megatron{code}.bin")
        ends = numpy.cumsum(lengths, dtype=numpy.int64) * numpy.dtype(kind).itemsize
        with open(out / f"megatron{code}.idx", "wb") as file:
            file.write(b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, code))
            file.write(struct.pack("<QQ", len(lengths), 3))
            file.write(lengths.tobytes())
            file.write(numpy.concatenate(([0], ends[:-1])).astype(numpy.int64).tobytes())
            file.write(numpy.array([0, 2, 4], dtype=numpy.int64).tobytes())
    names = ["nano", "small", "large", *(f"megatron{code}" for code in kinds)]
    write(out / "token_files.json", {name: tokens.tolist() for name in names})


def write_bytes(out):
    generator = random.Random(5)
    pool = [0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xA0, 0x9F, 0xED, 0xEF, 0xF0, 0x90,
            0x8F, 0xF4, 0xF5, 0xFF]
    cases = []
    for _ in range(5000):
        raw = bytes(generator.choice(pool) for _ in range(generator.randint(0, 8)))
        cases.append([list(raw), raw.decode("utf-8", errors="replace")])
    write(out / "utf8.json", cases)


def write_nfc(out):
    """Every code point alone, and random rows of those that normalization is about."""
    generator = random.Random(7)
    marks = [chr(p) for p in unicode_tables.POINTS if unicode_tables.combines(chr(p))]
    letters = [chr(p) for p in unicode_tables.POINTS if len(unicode_tables.NFD(chr(p))) > 1]
    pools = (marks, letters, list("aeioux") + [chr(p) for p in range(0x1100, 0x1200)],
             [chr(p) for p in range(0x900, 0xE00)])
    texts = ["x" + chr(p) for p in unicode_tables.POINTS if p < 0x30000]
    for _ in range(20_000):
        texts.append("".join(generator.choice(generator.choice(pools))
                             for _ in range(generator.randint(1, 7))))
    write(out / "nfc.json", [[text, unicode_tables.NFC(text)] for text in texts])


def main():
    docs_folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = sorted(str(path) for path in docs_folder.rglob("*.md"))
    docs = "\n".join(Path(file).read_text(encoding="utf-8") for file in files)
    for name in KINDS:
        write_tokenizer(name, files, docs, out)
    write_token_files(out)
    write_bytes(out)
    write_nfc(out)
    write(out / "class_runs.json", unicode_tables.class_runs())


if __name__ == "__main__":
    main()
