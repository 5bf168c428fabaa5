// `trireme bench` as a user runs it.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/launch/child.h"

namespace trireme::bench {

using BenchWords = std::vector<std::string>;

/// Runs the program to its end.
inline launch::ChildResult run_bench(
    BenchWords words, const Environment::Variables& variables = {}) {
  words.insert(words.begin(), {TRIREME_BENCH_PROGRAM, "bench"});
  return launch::run_child(
      {.command = words, .variables = variables, .limit = std::chrono::minutes(5)});
}

/// Expects a check to fail for want of a peer, and to say why there is none.
inline void expect_no_peer(const BenchWords& words) {
  const launch::ChildResult result =
      run_bench(words, {{"TRIREME_PYTHON", "/no/python"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("No peer: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("/no/python"), std::string::npos) << result.out;
}

}  // namespace trireme::bench
