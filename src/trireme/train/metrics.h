// What a step came to, and the file that keeps it: RUN/metrics.jsonl.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::train {

/// One step, over all ranks.
struct StepMetrics {
  /// Counted from 1: how many steps are done.
  int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  /// Trained on so far, and a second in this step.
  int64_t tokens = 0;
  double tokens_per_s = 0;
  /// The part of the ranks' time in this step that was no computing, 0 to 1.
  double bubble = 0;
  /// Of the rank that took most.
  int64_t peak_bytes = 0;
  /// Its loss or gradients were not finite, so it has changed nothing.
  bool skipped = false;
  /// If it was evaluated after this step.
  std::optional<double> held_out_loss{};
};

/// One line of metrics.jsonl, without its end. What is no number is null.
std::string to_json(const StepMetrics& metrics);

/// Appends a line a step. A line is written at once, so that a reader sees whole ones.
class MetricsFile {
 public:
  /// Opens the file. What it has of later steps than `done`, from a run that went on
  /// after its last checkpoint, is taken out, by a new file that takes its place at
  /// once: a kill leaves the one or the other. InvalidArgument if it cannot be written.
  MetricsFile(const std::filesystem::path& path, int64_t done);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const StepMetrics& metrics);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace trireme::train
