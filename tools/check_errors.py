#!/usr/bin/env python3
"""Holds every error to "[module] expected X, got Y; do Z"; run by ctest.

    tools/check_errors.py [ROOT]

Looks at the texts where an error is made: `throw InvalidArgument(…)`, and the same inside
make_exception_ptr(). What passes the what() of another error on is left alone. Prints
"path:line: what is wrong; what to do" for each violation, and exits 1 if there is one.
"""

import re
import sys
from pathlib import Path

TYPES = ("InvalidArgument", "NotSupported", "PeerError", "TimeoutError", "Error")

# Errors whose text somebody else writes, by file: a part of the call, and who does.
ALLOWED = {
    "bench/protocol.cpp": {'object.at("error")': "a worker, in its own error"},
    "comm/agree.cpp": {"all[rank]": "another rank"},
    "comm/no_collectives.cpp": {"refusal_)": "whoever made the scope"},
    "comm/mpi/mpi_world.cpp": {"TimeoutError(what)": "comm/channel_text.cpp"},
    "comm/shared/group_steps.cpp": {"describe_mismatch(": "comm/collective.cpp"},
    "comm/shared/ring.cpp": {"TimeoutError(what)": "comm/channel_text.cpp"},
    "comm/shared/world.cpp": {"reason)": "the rank that stopped the world"},
    "comm/wire/hosts_call.cpp": {"describe_mismatch(": "comm/collective.cpp",
                                 "PeerError(origin, words)": "a rank of another host"},
    "comm/wire/wire_steps.cpp": {"describe_mismatch(": "comm/collective.cpp"},
    "comm/tcp/tcp_mail.cpp": {"failure_->why": "the rank that stopped the world",
                             "absence_->why": "who stays away"},
    "comm/tcp/tcp_world.cpp": {"TimeoutError(what)": "comm/channel_text.cpp",
                               "first_reason": "the rank that gave up first"},
    "dist_autograd/fault.cpp": {"where + fault.text": "the worker where it was"},
    "dp/replica.cpp": {"lost_step(lost)": "lost_step() there"},
    "launch/await.cpp": {"Error(packet)": "the process that keeps the ranks"},
    "net/request_store.cpp": {"reply.text": "the store's table, perhaps in another process"},
    "net/node_dialling.cpp": {"(why)": "whoever refused or was lost"},
    "net/store_client.cpp": {"gone_text()": "gone_text() there"},
    "pipe/failure.cpp": {"both(e)": "whoever threw first"},
    "rpc/roster.cpp": {"trouble_,": "read_one() there"},
    "sched/action_text.cpp": {"flaw->what": "ActionReader::refuse()"},
    "sched/csv.cpp": {"what)": "its callers, and ActionReader::refuse()"},
    "train/run_lock.cpp": {"(refusal)": "rank 0"},
}

# Functions that write "[module] expected " before what each caller gives them, by file: the
# callers, in that module, say what came instead.
FINISHED_BY_CALLERS = {
    "data/bpe.cpp": "refuse_bpe",
    "data/file_bytes.h": "refuse_file",
    "data/token_loader.cpp": "refuse_loading",
    "train/config_check.cpp": "need",
    "train/generate.cpp": "need",
}

MADE = re.compile(
    r"\b(?:throw\s+|make_exception_ptr\(\s*)(?:trireme::)?(?:%s)\(" % "|".join(TYPES))
# Comments, and the strings and characters that may look like them.
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:[^"\\\n]|\\.)*"|'
    r"'(?:[^'\\\n]|\\.)+'(?=[^\w]|$)", re.DOTALL)
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def without_comments(source):
    """The source with blanks for comments, so that places stay."""
    def blank(match):
        text = match[0]
        return re.sub(r"[^\n]", " ", text) if text.startswith("/") else text
    return TOKEN.sub(blank, source)


def end_of_call(source, start):
    """After the parenthesis that closes the one at start - 1."""
    depth = 1
    for match in re.compile(TOKEN.pattern + r"|[()]", re.DOTALL).finditer(source, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(source)


NO_OTHER = ("a text that does not say what came instead", 'write "expected X, got Y"')


def says_what_came(said):
    return re.search(r"\b(?:got|but)\b", said)


def flaw_of(call, modules, finished_elsewhere):
    """What is wrong with the texts of a call, and what to do; None if nothing is."""
    said = "".join(STRING.findall(call))
    module = re.match(r"\[(\w+)\] ", said)
    if not module or module[1] not in modules:
        return "a text without its module", 'begin it with "[module] "'
    if "expected " not in said:
        return "a text that does not say what was expected", 'write "expected X, got Y"'
    after = said.split("expected ", 1)[1]
    if "; " not in after:
        return "a text without a remedy", 'end it with "; " and what the reader can do'
    if re.search(r"\bwanted\b", said):
        return 'a text that says "wanted"', 'write "expected"'
    if re.search(r"\bbehind\b", said):
        return 'a text that says "behind"', 'write "after" or "below"'
    if not finished_elsewhere and not says_what_came(after):
        return NO_OTHER
    return None


class Checker:
    def __init__(self, root, allowed, finished):
        self.root = Path(root)
        self.allowed = allowed
        self.finished = finished
        self.unused = {(file, part) for file, parts in allowed.items() for part in parts}
        self.problems = []

    def run(self):
        source = self.root / "src" / "trireme"
        modules = {path.name for path in source.iterdir() if path.is_dir()}
        for path in sorted(source.rglob("*")):
            if path.suffix in (".h", ".cpp"):
                self.check(path, path.relative_to(source).as_posix(), modules)
        for file, part in sorted(self.unused):
            self.problems.append(f"tools/check_errors.py:1: allows {part!r} in {file}, which "
                                 "is not there or needs no leave; remove it from ALLOWED")
        return self.problems

    def check(self, path, name, modules):
        source = without_comments(path.read_text(encoding="utf-8"))
        for match in MADE.finditer(source):
            call = source[match.start():end_of_call(source, match.end())]
            if "what()" in call:
                continue
            flaw = flaw_of(call, modules, name in self.finished)
            if flaw is None:
                continue
            leave = next((part for part in self.allowed.get(name, ()) if part in call), None)
            if leave:
                self.unused.discard((name, leave))
                continue
            self.refuse(path, source, match.start(), flaw)
        for place, function in self.finished.items():
            # A header's function may be called in all of its module.
            if name == place or (place.endswith(".h") and
                                 Path(name).parent == Path(place).parent):
                self.check_callers(path, source, function)

    def check_callers(self, path, source, function):
        for match in re.finditer(r"(?<!void )\b%s\(" % function, source):
            call = source[match.start():end_of_call(source, match.end())]
            if STRING.search(call) and not says_what_came("".join(STRING.findall(call))):
                self.refuse(path, source, match.start(), NO_OTHER)

    def refuse(self, path, source, place, flaw):
        line = source.count("\n", 0, place) + 1
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {flaw[0]}; {flaw[1]}")


def main():
    own = Path(__file__).resolve().parent.parent
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else own
    # Another tree has none of these files.
    here = root.resolve() == own
    problems = Checker(root, ALLOWED if here else {}, FINISHED_BY_CALLERS if here else {}).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
