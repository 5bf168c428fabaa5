"""Our schedules are torch's: the same orders, the same lowering, and files that go both ways.

    schedule_peer.py build/release/bin/trireme

Run by ctest, which skips it when TRIREME_PYTHON names no Python with PyTorch. For each schedule
that torch has, and each size of a grid, legal or not:

  order     our order is what torch generates; where torch keeps bubbles, with its bubbles
  lowering  with UNSHARD, RESHARD, REDUCE_GRAD, SEND and RECV too
  to torch  torch's loader takes our files, lowers them alike, and its simulator runs them
  from it   we take torch's files, and find that they cannot lock up
  refusal   what torch refuses we refuse
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

SKIPPED = 77
FEWEST_SETS = 200


def use_torch_python():
    """Goes on in the Python that has torch; ctest knows only one that may not."""
    python = os.environ.get("TRIREME_PYTHON")
    if not python:
        print("skipped: TRIREME_PYTHON is not set; run ./trireme test")
        sys.exit(SKIPPED)
    if os.environ.get("TRIREME_SCHEDULE_PEER") != "1":
        os.environ["TRIREME_SCHEDULE_PEER"] = "1"
        os.execv(python, [python, "-B", *sys.argv])


if __name__ == "__main__":
    use_torch_python()

import torch.distributed.pipelining.schedules as torch_schedules  # noqa: E402

SINGLE = ("GPipe", "1F1B")
# torch keeps no bubbles of the first two.
WITH_BUBBLES = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
SHARDING = (torch_schedules.UNSHARD, torch_schedules.RESHARD, torch_schedules.REDUCE_GRAD)

# Sizes as (ranks, stages a rank, microbatches). Groups of Interleaved1F1B are uneven where
# microbatches are no multiple of ranks; some sizes are illegal for some schedules.
SMALL = [(P, 1, M) for P in (1, 2, 3, 5, 8) for M in (1, 2, 3, 5, 8, 16, 21)]
LOOPED = [(P, V, M) for P in (1, 2, 3, 4, 6) for V in (1, 2, 5) for M in (1, 2, 3, 6, 9, 10)]
V_SHAPED = ([(P, 2, M) for P in (1, 2, 3, 4, 5, 8) for M in (1, 2, 4, 5, 7, 10, 16, 19)]
            + [(2, 1, 4), (2, 3, 4)])
# What torch's own tests build.
UPSTREAM = [
    (P, V, M) for V, M, P in
    ((2, 2, 2), (2, 4, 4), (2, 8, 2), (2, 8, 4), (2, 8, 8), (4, 4, 4), (4, 8, 4), (4, 8, 8),
     (4, 16, 4), (4, 32, 4), (4, 64, 4), (4, 16, 16), (4, 32, 32), (4, 128, 64), (3, 2, 2), (3, 8, 2),
     (3, 12, 4), (4, 6, 3), (4, 10, 5), (2, 3, 4), (2, 10, 4), (2, 15, 4))]
GRIDS = {
    "GPipe": SMALL,
    "1F1B": SMALL,
    "LoopedBFS": LOOPED + UPSTREAM,
    "Interleaved1F1B": LOOPED + UPSTREAM,
    "InterleavedZeroBubble": LOOPED + UPSTREAM,
    "ZBVZeroBubble": V_SHAPED + UPSTREAM,
    "DualPipeV": V_SHAPED + UPSTREAM,
}

# Orders that nobody generates, and stages that lie as no rule says.
CUSTOM = {
    "there and back": (
        "0F0,0F1,,3F0,3B0,3F1,3B1,0B0,0B1\n"
        ",1F0,2F0,1F1,2F1,2I0,1B0,2W0,2B1,1I1,1W1\n"),
    "three stages and two": (
        "0F0,1F0,4F0,4B0,1B0,0B0\n"
        "2F0,3F0,3B0,2B0\n"),
    "stage 0 on the last rank": (
        "1F0,1F1,1B1,1B0\n"
        "0F0,0F1,0B1,0B0\n"),
    "overlaps": (
        "0F0,0F1,3F0,(0F2;3B0)OVERLAP_F_B,(3F1;0B0)OVERLAP_F_B,3B1,0B1,3F2,3B2,0B2\n"
        "1F0,2F0,1F1,2F1,2B0,(1F2;1B0)OVERLAP_F_B,2B1,(2F2;1B1)OVERLAP_F_B,2B2,1B2\n"),
    "five stages a rank, so that some are resharded": (
        ",".join([f"{s}F{m}" for s in range(0, 10, 2) for m in range(2)]
                 + [f"{s}B{m}" for s in range(8, -1, -2) for m in range(2)]) + "\n" +
        ",".join([f"{s}F{m}" for s in range(1, 10, 2) for m in range(2)]
                 + [f"{s}B{m}" for s in range(9, 0, -2) for m in range(2)]) + "\n"),
}


# -- torch's side

def make_stage(ranks, stages, rank=0):
    return SimpleNamespace(
        group_rank=rank, group_size=ranks, num_stages=stages, submod=None, stage_index=rank,
        is_first=rank == 0, is_last=rank == stages - 1)


def torch_schedule(name, ranks, stages_per_rank, microbatches):
    """torch's own object, made without process groups; ValueError if it refuses."""
    stages = [make_stage(ranks, ranks * stages_per_rank) for _ in range(stages_per_rank)]
    kind = torch_schedules.get_schedule_class(name)
    return kind(stages[0] if name in SINGLE else stages, microbatches)


def executed_order(name, ranks, microbatches):
    """What GPipe and 1F1B really do on each rank. Their pipeline_order is for display only, and
    1F1B's counts the last rank's forwards from 1."""
    order = {}
    for rank in range(ranks):
        done = order[rank] = []
        stage = make_stage(ranks, ranks, rank)
        for nothing in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
            setattr(stage, nothing, lambda microbatch: [])
        stage.forward_one_chunk = lambda m, *_, done=done, rank=rank, **__: done.append(f"{rank}F{m}")
        stage.backward_one_chunk = lambda m, done=done, rank=rank, **__: done.append(f"{rank}B{m}")
        stage.perform_reduce_grad = lambda factor: None
        schedule = torch_schedules.get_schedule_class(name)(stage, microbatches)
        schedule._initialize_stage = lambda *args, **kwargs: None
        schedule._step_microbatches([()] * microbatches, [{}] * microbatches)
    return order


def displayed_order(schedule, ranks):
    """pipeline_order without REDUCE_GRAD, the last rank of 1F1B counted right."""
    order = {}
    for rank in range(ranks):
        actions = [a for a in schedule.pipeline_order[rank]
                   if a is not None and a.computation_type != torch_schedules.REDUCE_GRAD]
        forwards = [a.microbatch_index for a in actions if a.computation_type == torch_schedules.F]
        slip = min(forwards) if forwards else 0
        order[rank] = [
            str(a._replace(microbatch_index=a.microbatch_index - slip)
                if a.computation_type == torch_schedules.F else a) for a in actions]
    return order


def runtime_for(ranks, stages, microbatches):
    return torch_schedules._PipelineScheduleRuntime([make_stage(ranks, stages)], microbatches)


def to_text(actions):
    return ["" if action is None else str(action) for action in actions]


def all_text(order):
    return [to_text(order[rank]) for rank in sorted(order)]


def simulable(actions):
    """What torch's simulator knows: no sharding, and overlaps as their two halves."""
    result = []
    for action in actions:
        if action.sub_actions is not None:
            result.extend(action.sub_actions)
        elif action.computation_type not in SHARDING:
            result.append(action)
    return result


def simulate_in_torch(runtime):
    """Raises if the lowered schedule cannot go on."""
    order = {rank: simulable(actions) for rank, actions in runtime.pipeline_order_with_comms.items()}
    wanted = {rank: len(actions) for rank, actions in order.items()}
    done = torch_schedules._simulate_comms_compute(
        order, lambda stage: runtime.stage_index_to_group_rank[stage], runtime._num_stages)
    got = {rank: sum(action is not None for action in done[rank]) for rank in done}
    if got != wanted:
        raise AssertionError(f"torch's simulator did {got} of {wanted} actions")


# -- our side

class Program:
    def __init__(self, path):
        self.path = path

    def run(self, *words, code=0):
        done = subprocess.run([self.path, "schedule", *map(str, words)], capture_output=True, text=True)
        if done.returncode != code:
            raise AssertionError(
                f"trireme schedule {' '.join(map(str, words))}: wanted exit code {code}, got "
                f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def show(self, what, *words):
        text = self.run("show", what, "--format", "csv", *words)
        return text, [line.split(",") if line else [] for line in text.split("\n")[:-1]]


def size_words(ranks, stages_per_rank, microbatches):
    return ("--ranks", ranks, "--stages-per-rank", stages_per_rank, "--microbatches", microbatches)


# -- the comparison

def expect_same(what, ours, theirs):
    """Lists of cells, one a rank; a row's empty cells at its end are nothing."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{what}: we have {len(ours)} ranks, torch {len(theirs)}")
    for rank, (our_row, their_row) in enumerate(zip(ours, theirs)):
        our_row, their_row = trimmed(our_row), trimmed(their_row)
        if our_row == their_row:
            continue
        place = next((i for i, (a, b) in enumerate(zip(our_row, their_row)) if a != b),
                     min(len(our_row), len(their_row)))
        around = slice(max(0, place - 3), place + 4)
        raise AssertionError(
            f"{what}: rank {rank} differs at cell {place}\n  ours  {our_row[around]}\n"
            f"  torch {their_row[around]}")


def trimmed(row):
    row = list(row)
    while row and row[-1] == "":
        row.pop()
    return row


def without_bubbles(rows):
    return [[cell for cell in row if cell] for row in rows]


class Comparison:
    def __init__(self, program, folder):
        self.program = program
        self.file = Path(folder, "schedule.csv")

    def named(self, name, ranks, stages_per_rank, microbatches):
        """False: both refuse."""
        size = size_words(ranks, stages_per_rank, microbatches)
        try:
            if name in SINGLE and stages_per_rank != 1:
                raise ValueError
            schedule = torch_schedule(name, ranks, stages_per_rank, microbatches)
        except ValueError:
            self.program.run("show", name, *size, code=2)
            return False
        text, ours = self.program.show(name, *size)
        if name in WITH_BUBBLES:
            order = all_text(schedule.pipeline_order)
            expect_same("order", ours, order)
        else:
            order = all_text(executed_order(name, ranks, microbatches))
            expect_same("order", without_bubbles(ours), order)
            shown = all_text(displayed_order(schedule, ranks))
            expect_same("displayed order", without_bubbles(ours), shown)
        lowered_text, lowered = self.program.show(name, *size, "--lowered")
        self.files(text, lowered_text, order, lowered, (ranks, ranks * stages_per_rank, microbatches))
        return True

    def custom(self, text):
        rows = [line.split(",") for line in text.split("\n")[:-1]]
        actions = [torch_schedules._Action.from_str(cell) for row in rows for cell in row]
        leaves = [leaf for action in actions if action for leaf in (action.sub_actions or (action,))]
        stages = 1 + max(leaf.stage_index for leaf in leaves)
        microbatches = 1 + max(leaf.microbatch_index for leaf in leaves)
        self.file.write_text(text)
        lowered_text, lowered = self.program.show(self.file, "--lowered")
        self.files(text, lowered_text, rows, lowered, (len(rows), stages, microbatches))

    def files(self, text, lowered_text, order, lowered, size):
        """`order` is torch's; the rest is what we made of it."""
        self.file.write_text(text)
        runtime = runtime_for(*size)
        runtime._load_csv(str(self.file), format="compute_only")
        expect_same("lowering", lowered, all_text(runtime.pipeline_order_with_comms))
        expect_same("order as torch reads it", without_bubbles(all_text(runtime.pipeline_order)),
                    without_bubbles(order))
        # What torch writes, we take. Its files end lines as Windows does.
        runtime._dump_csv(str(self.file), format="compute_only")
        self.program.run("check", self.file)
        expect_same("torch's file as we read it", self.program.show(self.file)[1],
                    all_text(runtime.pipeline_order))
        runtime._dump_csv(str(self.file), format="compute_comms")
        self.program.run("check", self.file, "--lowered", "--buffers", "rendezvous")
        # And our lowered file is the same for torch.
        self.file.write_text(lowered_text)
        loaded = runtime_for(*size)
        loaded._load_csv(str(self.file), format="compute_comms")
        expect_same("lowered file as torch reads it", lowered,
                    all_text(loaded.pipeline_order_with_comms))
        simulate_in_torch(loaded)


def main():
    if len(sys.argv) != 2:
        print("usage: schedule_peer.py TRIREME", file=sys.stderr)
        return 2
    failures = legal = 0
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(Program(sys.argv[1]), folder)

        def attempt(what, function, *arguments):
            nonlocal failures
            try:
                return function(*arguments)
            except Exception as error:
                failures += 1
                if failures <= 10:
                    print(f"FAILED {what}: {type(error).__name__}: {error}")
                return None

        for name, grid in GRIDS.items():
            made = [attempt(f"{name} {size_words(*size)}", comparison.named, name, *size)
                    for size in dict.fromkeys(grid)]
            print(f"{name}: {made.count(True)} sizes as in torch, {made.count(False)} refused by both")
            legal += made.count(True)
        for name, text in CUSTOM.items():
            attempt(name, comparison.custom, text)
        print(f"{len(CUSTOM)} schedules by hand")
    if failures == 0 and legal < FEWEST_SETS:
        print(f"FAILED: only {legal} sizes were compared, wanted at least {FEWEST_SETS}")
        return 1
    print(f"{legal} sizes, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
