// Text from a model, one token after the other, on one rank or on those of a pipeline.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/data/shuffle.h"
#include "trireme/model/decoder.h"

namespace trireme::train {

/// How tokens are drawn.
struct SampleOptions {
  int64_t max_new_tokens = 200;
  /// 0: always the likeliest.
  double temperature = 0.8;
  /// Only the k likeliest, and of these the likeliest that have p together; 0 and 1:
  /// all.
  int64_t top_k = 0;
  double top_p = 1;
  /// Only tokens below this, as where a model has more than its tokenizer; 0: all.
  int64_t vocabulary = 0;
  uint64_t seed = 0;
};

/// A token that was drawn, and its log probability under the model itself, whatever the
/// options made of it.
struct Drawn {
  int64_t token = 0;
  double logprob = 0;
};

/// InvalidArgument unless the options make sense.
void check_options(const SampleOptions& options);

/// Draws from the logits [vocabulary] of one position. InvalidArgument if one of them
/// is NaN, or the largest is not finite.
Drawn draw(
    const at::Tensor& logits, const SampleOptions& options, data::SplitMix& random);

/// What came: prompt and new tokens.
struct Generated {
  std::vector<int64_t> ids;
  std::vector<int64_t> new_ids;
  std::vector<double> logprobs;
};

/// The stages of a model over a group, for decoding. Rank r of the group has the stages
/// that `rank_of_stage` gives it, in order; a group of one has all.
struct StageDecoders {
  std::vector<int> rank_of_stage;
  /// Of this rank's stages, ascending.
  std::vector<std::unique_ptr<model::Decoder>> decoders;
};

/// Draws tokens until there are enough, `stop` says so, or the model's positions are at
/// an end (`most_positions`, 0: no end). All ranks of the group get the result; `stop`
/// is asked on all of them, and must say the same. InvalidArgument on all ranks if the
/// logits are no numbers to draw from. Collective.
///
///     Generated text = generate(group, stages, tokenizer->encode("The"), {}, 1024);
Generated generate(
    const comm::Group& group,
    StageDecoders& stages,
    const std::vector<int64_t>& prompt,
    const SampleOptions& options,
    int64_t most_positions,
    const std::function<bool(const std::vector<int64_t>& new_ids)>& stop = {});

}  // namespace trireme::train
