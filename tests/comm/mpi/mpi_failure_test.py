"""What becomes of a job over MPI when a rank fails: it ends, soon, and says who and why.

    mpi_failure_test.py PROGRAM MPIEXEC
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM, MPIEXEC = "", ""
LIMIT = 60  # no job may take longer, whatever happens


def run(command, **variables):
    """Exit code, seconds, stderr, stdout."""
    start = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **variables}, timeout=LIMIT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, time.monotonic() - start, done.stderr, done.stdout


def run_job(way, ranks=2, hosts=False, **variables):
    return run([MPIEXEC, "-n", str(4 if hosts else ranks), PROGRAM, way] + ["hosts"] * hosts,
               **variables)


class MpiFailure(unittest.TestCase):
    def expect_end(self, way, *words, within=30, **variables):
        code, took, errors, _ = run_job(way, **variables)
        self.assertNotEqual(code, 0, errors)
        self.assertLess(took, within, errors)
        for word in words:
            self.assertIn(word, errors)
        return errors

    def test_a_rank_that_throws_ends_the_job_after_main_had_its_say(self):
        errors = self.expect_end(
            "exception", "main caught: the oar is broken",
            "[comm] rank 1 of 2 stopped the world: left its world by an exception")
        self.assertLess(errors.index("main caught"), errors.index("stopped the world"))

    def test_abort_ends_the_job_with_its_reason(self):
        self.expect_end("abort",
                        "[comm] rank 1 of 2 stopped the world: rank 1 failed: the oar is broken")

    def test_an_error_of_a_channel_that_nobody_catches_ends_the_job(self):
        self.expect_end("channel", "main caught: [comm] expected message 1 from rank 0",
                        "[comm] rank 1 of 2 stopped the world")

    def test_a_rank_that_does_not_come_is_named(self):
        self.expect_end(
            "miss", "[comm] rank 0 of 2 stopped the world: expected 2 ranks at all_reduce sum "
            "float32[3] of the world within 700 ms, but rank 1 did not come; look at")

    def test_a_rank_that_does_not_start_ends_the_job(self):
        self.expect_end("miss_start", "[comm] rank 0 of 2 stopped: expected all ranks at the "
                        "start of MPI within 2000 ms", TRIREME_TIMEOUT="2")

    def test_a_rank_that_dies_ends_the_job(self):
        self.expect_end("die")

    def test_the_flight_record_is_written_first(self):
        with tempfile.TemporaryDirectory() as folder:
            self.expect_end("miss", "did not come", TRIREME_FLIGHT_DIR=folder)
            record = Path(folder, "rank_0.json").read_text(encoding="utf-8")
            self.assertIn("all_reduce sum float32[3]", record)
            self.assertIn("rank 1 did not come", record)

    def test_a_message_that_nobody_receives_does_not_hold_up_the_end(self):
        code, took, errors, _ = run_job("leave", TRIREME_LOG="warn")
        self.assertEqual(code, 0, errors)
        self.assertLess(took, 40)
        self.assertIn("leaves messages behind that nobody has received: 1", errors)

    def test_on_two_hosts_abort_ends_the_job_with_its_reason(self):
        self.expect_end("abort", "[comm] rank 1 of 4 stopped the world: rank 1 failed: the oar "
                        "is broken", hosts=True)

    def test_on_two_hosts_a_rank_that_does_not_come_is_named(self):
        errors = self.expect_end("miss", "at all_reduce sum float32[3]", "within 700 ms, but "
                                 "rank 1 did not come; look at", hosts=True)
        self.assertNotIn("rank 0 did not come", errors)

    def test_on_two_hosts_a_rank_that_throws_ends_the_job_after_main_had_its_say(self):
        errors = self.expect_end("exception", "main caught: the oar is broken",
                                 "[comm] rank 1 of 4 stopped the world", hosts=True)
        self.assertLess(errors.index("main caught: the oar"), errors.index("stopped the world"))

    def test_on_two_hosts_a_rank_that_dies_ends_the_job(self):
        self.expect_end("die", hosts=True)

    def test_without_mpirun_it_says_what_to_do(self):
        code, _, errors, _ = run([PROGRAM, "join"], RANK="0", WORLD_SIZE="2", MASTER_PORT="29500")
        self.assertEqual(code, 1, errors)
        self.assertIn("main caught: [comm] expected MPI to see the 2 ranks of the launcher's "
                      "variables, got 1; start it with mpirun -n 2 PROGRAM", errors)

    def test_a_world_of_one_needs_no_mpirun(self):
        code, _, errors, _ = run([PROGRAM, "join"])
        self.assertEqual(code, 0, errors)

    def test_an_mpi_that_the_program_started_must_take_all_threads(self):
        self.expect_end("single", "MPI_THREAD_MULTIPLE", "leave starting MPI to init()")

    def test_an_mpi_that_the_program_started_is_left_to_the_program(self):
        code, _, errors, output = run_job("multiple")
        self.assertEqual(code, 0, errors)
        self.assertEqual(output.count("sum 2"), 2)


if __name__ == "__main__":
    PROGRAM, MPIEXEC = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
