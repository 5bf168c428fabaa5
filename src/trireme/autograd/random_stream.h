// Random numbers that depend on what they are for, and not on who draws them when.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "trireme/autograd/philox.h"

namespace trireme::autograd {

/// What is random in a step: every number that a layer draws follows from the seed, the
/// step, the sample (counted over the whole batch, on all ranks) and the layer. So one
/// process, a pipeline, and any number of microbatches draw the same.
struct RandomContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  /// The number of the first sample of this microbatch within the whole batch.
  uint64_t first_sample = 0;
  /// How many samples the microbatch has; 0: as many as a tensor has rows (dim 0). Say
  /// it if layers see tensors where samples and positions are one dim, [B * T, D].
  int64_t samples = 0;
};

/// Sets the random context of this thread while it lives.
///
///     RandomScope scope({.seed = 7, .step = step, .first_sample = 16 * rank});
///     y = model->forward(x);  // dropout() draws from the streams of these samples
class RandomScope {
 public:
  /// None: as if there were no scope around this one.
  explicit RandomScope(const std::optional<RandomContext>& context);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  std::optional<RandomContext> outer_;
};

/// The random context of this thread.
const std::optional<RandomContext>& current_random();

/// A number for the name of a layer: the same in every program, on every machine.
uint64_t layer_key(std::string_view name);

/// The numbers of one layer in one step: for every sample a stream of its own, in
/// groups of 64.
class RandomStream {
 public:
  static constexpr int64_t kGroup = 64;
  RandomStream(const RandomContext& context, uint64_t layer);
  /// Writes the 64 numbers of a group.
  void draw(uint64_t sample, uint64_t group, uint32_t* numbers) const {
    group_(key_, sample, group, numbers);
  }
  uint64_t key() const { return key_; }

 private:
  uint64_t key_;
  PhiloxGroup group_;
};

}  // namespace trireme::autograd
