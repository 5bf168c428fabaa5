// `trireme train` as a program, with a tiny job.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../launch/launched.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {

/// The end of a test proves that no process is left.
class TrainCase : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  ~TrainCase() override { EXPECT_TRUE(mark_.gone_within(10s)); }

  /// A tiny job in a folder whose name is the mark, so that its processes are found.
  Words train(const Words& more) const {
    Words all{
        TRIREME_PROGRAM,
        "train",
        "--job.dump_folder",
        run_.string(),
        "--data.path",
        text_,
        "--model.dim",
        "16",
        "--model.n_layers",
        "2",
        "--model.n_heads",
        "2",
        "--training.seq_len",
        "8",
        "--training.global_batch_size",
        "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const testing::ScratchFolder folder_;
  const Mark mark_;
  const std::filesystem::path run_ = folder_.path() / mark_.word();
  const std::string text_ =
      folder_.write("text.txt", std::string(40'000, 'x') + std::string(4'000, 'y'))
          .string();
  std::string out_;
};

}  // namespace trireme::launch
