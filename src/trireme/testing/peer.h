// The Python that tests compare with.
#pragma once
#include <string>
#include <vector>

namespace trireme::testing {

/// Why a test cannot run beside Python packages: TRIREME_PYTHON is not set, or has not
/// all of them. Empty if it can.
///
///     if (const auto why = peer_missing({"transformers"}); !why.empty())
///       GTEST_SKIP() << why;
std::string peer_missing(const std::vector<std::string>& packages);

/// What a Python script prints; the test fails unless it ends well.
///
///     run_peer({"tests/peer/pipeline_losses.py"});
std::string run_peer(const std::vector<std::string>& script_and_words);

}  // namespace trireme::testing
