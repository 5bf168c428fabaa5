#include "trireme/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::train {
namespace {

// The pipeline's own channels on the same group count from 0.
constexpr int kFirstTag = 1 << 20;

/// The probabilities of all tokens, with those that the options rule out at 0; sorted,
/// the likeliest first.
struct Candidates {
  std::vector<double> probabilities;
  std::vector<int64_t> tokens;
};

Candidates candidates(const at::Tensor& logits, const SampleOptions& options) {
  const at::Tensor scaled = logits.to(at::kDouble) / options.temperature;
  const int64_t all = scaled.numel();
  const int64_t kept = options.top_k > 0 ? std::min(options.top_k, all) : all;
  const auto [values, indices] = scaled.topk(kept);
  const at::Tensor softened = at::softmax(values, 0);
  const auto shares = softened.accessor<double, 1>();
  const auto tokens = indices.accessor<int64_t, 1>();
  Candidates found;
  double sum = 0;
  for (int64_t i = 0; i < kept; ++i) {
    const double share = shares[i];
    found.probabilities.push_back(share);
    found.tokens.push_back(tokens[i]);
    sum += share;
    if (sum >= options.top_p)
      break;
  }
  return found;
}

/// A number in [0, 1).
double uniform(data::SplitMix& random) {
  return static_cast<double>(random.next() >> 11) * 0x1p-53;
}

int64_t choose(const Candidates& found, data::SplitMix& random) {
  const double total =
      std::accumulate(found.probabilities.begin(), found.probabilities.end(), 0.0);
  double left = uniform(random) * total;
  for (size_t i = 0; i < found.tokens.size(); ++i) {
    left -= found.probabilities[i];
    if (left < 0)
      return found.tokens[i];
  }
  return found.tokens.back();
}

/// Minus infinity rules a token out; NaN and infinity say nothing about any.
bool is_drawable(const at::Tensor& logits) {
  return std::isfinite(logits.max().item<double>());
}

[[noreturn]] void refuse_logits() {
  throw InvalidArgument(
      "[train] expected finite logits to draw a token from, got NaN or infinity; the "
      "model's weights are damaged: take an older checkpoint");
}

/// One pass of positions through all stages; gives the logits of the last position on
/// the rank of the last stage.
class Chain {
 public:
  Chain(const comm::Group& group, StageDecoders& stages)
      : group_(group), stages_(stages) {
    const auto& owners = stages_.rank_of_stage;
    for (size_t i = 0; i + 1 < owners.size(); ++i)
      if (owners[i] != owners[i + 1] &&
          (owners[i] == group_.rank() || owners[i + 1] == group_.rank()))
        channels_.emplace_back(
            i,
            comm::Channel(
                group_,
                {.from = owners[i],
                 .to = owners[i + 1],
                 .tag = kFirstTag + static_cast<int>(i)}));
  }

  at::Tensor run(const at::Tensor& ids) {
    at::Tensor x = ids;
    size_t mine = 0;
    const auto& owners = stages_.rank_of_stage;
    for (size_t stage = 0; stage < owners.size(); ++stage) {
      if (owners[stage] != group_.rank())
        continue;
      if (stage > 0 && owners[stage - 1] != group_.rank())
        x = channel(stage - 1).receive().tensors.at(0);
      x = stages_.decoders[mine++]->step(x);
      if (stage + 1 < owners.size() && owners[stage + 1] != group_.rank())
        channel(stage).send({.tensors = {x}});
    }
    return x;
  }

 private:
  const comm::Channel& channel(size_t after) const {
    for (const auto& [stage, channel] : channels_)
      if (stage == after)
        return channel;
    TRIREME_ASSERT(false);
    return channels_.front().second;
  }

  const comm::Group& group_;
  StageDecoders& stages_;
  std::vector<std::pair<size_t, comm::Channel>> channels_;
};

}  // namespace

void check_options(const SampleOptions& options) {
  const auto need = [](bool holds, const std::string& what, const char* remedy) {
    if (!holds)
      throw InvalidArgument(text("[train] expected ", what, "; ", remedy));
  };
  need(
      options.max_new_tokens >= 0,
      text("max_new_tokens of at least 0, got ", options.max_new_tokens),
      "give a number from 0");
  need(
      std::isfinite(options.temperature) && options.temperature >= 0,
      text("a temperature of at least 0, got ", options.temperature),
      "take 0 for the likeliest token, 1 for the model's own odds");
  need(
      options.top_k >= 0,
      text("top_k of at least 0, got ", options.top_k),
      "take 0 for all tokens");
  need(
      options.top_p > 0 && options.top_p <= 1,
      text("top_p above 0 and at most 1, got ", options.top_p),
      "take 1 for all tokens");
}

Drawn draw(
    const at::Tensor& logits, const SampleOptions& options, data::SplitMix& random) {
  if (!is_drawable(logits))
    refuse_logits();
  const bool limited = options.vocabulary > 0 && options.vocabulary < logits.numel();
  const at::Tensor known = limited ? logits.narrow(0, 0, options.vocabulary) : logits;
  Drawn drawn;
  drawn.token = options.temperature == 0 ? known.argmax().item<int64_t>()
                                         : choose(candidates(known, options), random);
  const at::Tensor wide = logits.to(at::kDouble);
  drawn.logprob =
      wide[drawn.token].item<double>() - at::logsumexp(wide, 0).item<double>();
  return drawn;
}

Generated generate(
    const comm::Group& group,
    StageDecoders& stages,
    const std::vector<int64_t>& prompt,
    const SampleOptions& options,
    int64_t most_positions,
    const std::function<bool(const std::vector<int64_t>&)>& stop) {
  check_options(options);
  if (prompt.empty())
    throw InvalidArgument(
        "[train] expected a prompt of at least one token, got none; the model has to "
        "begin somewhere");
  if (most_positions > 0 && options.max_new_tokens > 0 &&
      static_cast<int64_t>(prompt.size()) >= most_positions)
    throw InvalidArgument(text(
        "[train] expected a prompt of less than the model's ",
        most_positions,
        " positions, got ",
        prompt.size(),
        " tokens; shorten it"));
  const at::NoGradGuard no_grad;
  Generated made{.ids = prompt, .new_ids = {}, .logprobs = {}};
  data::SplitMix random(options.seed);
  Chain chain(group, stages);
  for (const auto& decoder : stages.decoders)
    decoder->reset();
  const int last = stages.rank_of_stage.back();
  at::Tensor ids = at::tensor(prompt, at::kLong).unsqueeze(0);
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (most_positions > 0 && static_cast<int64_t>(made.ids.size()) >= most_positions)
      break;
    const at::Tensor logits = chain.run(ids);
    // Of a token, its log probability, and whether there is one: all ranks must hear of
    // it when there is none.
    at::Tensor news = at::zeros({3}, at::kDouble);
    if (group.rank() == last && is_drawable(logits[0][-1])) {
      const Drawn drawn = draw(logits[0][-1], options, random);
      news[0] = static_cast<double>(drawn.token);
      news[1] = drawn.logprob;
      news[2] = 1;
    }
    comm::broadcast(group, news, last);
    if (news[2].item<double>() == 0)
      refuse_logits();
    const auto token = static_cast<int64_t>(news[0].item<double>());
    made.ids.push_back(token);
    made.new_ids.push_back(token);
    made.logprobs.push_back(news[1].item<double>());
    if (stop && stop(made.new_ids))
      break;
    ids = at::full({1, 1}, token, at::kLong);
  }
  return made;
}

}  // namespace trireme::train
