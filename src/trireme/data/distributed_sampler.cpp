#include "trireme/data/distributed_sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <torch/serialize/archive.h>

#include "trireme/core/error.h"
#include "trireme/data/shuffle.h"

namespace trireme::data {
namespace {

void check(const DistributedSamplerOptions& options) {
  if (options.size == 0)
    throw InvalidArgument(
        "[data] expected a dataset with samples, got none; say its size in the options "
        "of DistributedSampler");
  if (options.rank >= options.ranks)
    throw InvalidArgument(text(
        "[data] expected a rank below the number of ranks, got rank ",
        options.rank,
        " of ",
        options.ranks,
        "; take both from the group that shares the data"));
  if (options.tail == Tail::Drop && options.size < options.ranks)
    throw InvalidArgument(text(
        "[data] expected a sample for each of ",
        options.ranks,
        " ranks, got ",
        options.size,
        "; use Tail::Pad, which repeats some, or fewer ranks"));
}

size_t samples_of(const DistributedSamplerOptions& options) {
  const size_t whole = options.size / options.ranks;
  const bool has_tail = options.size % options.ranks != 0;
  return whole + (has_tail && options.tail == Tail::Pad ? 1 : 0);
}

void write(
    torch::serialize::OutputArchive& archive, const std::string& key, uint64_t value) {
  archive.write(key, c10::IValue(static_cast<int64_t>(value)));
}

uint64_t read(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  if (!archive.try_read(key, value) || !value.isInt())
    throw InvalidArgument(text(
        "[data] expected an archive that DistributedSampler::save() has written, got "
        "one without \"",
        key,
        "\"; give the sampler an archive of its own"));
  return static_cast<uint64_t>(value.toInt());
}

void check_same(
    torch::serialize::InputArchive& archive, const std::string& key, uint64_t here) {
  if (const uint64_t saved = read(archive, key); saved != here)
    throw InvalidArgument(text(
        "[data] expected to go on with the ",
        key,
        " that was saved, ",
        saved,
        ", got ",
        here,
        "; make the sampler with the same options, or its order is another"));
}

/// The position at which as many samples have been given to all ranks together as at
/// `position` with other ranks: they are the start of the order in both cases.
size_t position_among(
    const DistributedSamplerOptions& now,
    const DistributedSamplerOptions& saved,
    size_t position) {
  if (now.ranks == saved.ranks)
    return position;
  const size_t given = position * saved.ranks;
  const size_t end = std::min(now.size, samples_of(now) * now.ranks);
  if (position >= samples_of(saved) || given >= end)
    return samples_of(now);
  if (given % now.ranks != 0)
    throw InvalidArgument(text(
        "[data] expected to go on after a multiple of ",
        now.ranks,
        " samples, since there are as many ranks now, got ",
        given,
        " samples that ",
        saved.ranks,
        " ranks were given; go on with as many ranks as before, or from the "
        "start of an epoch"));
  return given / now.ranks;
}

}  // namespace

struct DistributedSampler::State {
  DistributedSamplerOptions options;
  uint64_t epoch = 0;
  size_t position = 0;
  /// Whether the next reset() stays where it is.
  bool stays = false;
  /// This rank's part of the shuffled order; empty until it is needed.
  std::vector<size_t> order;

  size_t sample(size_t at) {
    const size_t place = options.rank + at * options.ranks;
    if (!options.shuffle)
      return place % options.size;
    if (order.empty())
      draw_order();
    return order[at];
  }
  void draw_order();
  void go_to(uint64_t new_epoch, size_t new_position);
};

void DistributedSampler::State::draw_order() {
  order.resize(options.size);
  std::iota(order.begin(), order.end(), size_t{0});
  shuffle(order, SplitMix(options.seed, epoch));
  // This rank's part moves to the front: a sample is read before its place is written,
  // but for the padding, which comes from the start.
  const size_t count = samples_of(options);
  const size_t last = options.rank + (count - 1) * options.ranks;
  const size_t last_sample = order[last % options.size];
  for (size_t i = 0; i + 1 < count; ++i)
    order[i] = order[options.rank + i * options.ranks];
  order[count - 1] = last_sample;
  order.resize(count);
  order.shrink_to_fit();
}

void DistributedSampler::State::go_to(uint64_t new_epoch, size_t new_position) {
  if (new_position > samples_of(options))
    throw InvalidArgument(text(
        "[data] expected a position up to ",
        samples_of(options),
        ", which is how many samples of an epoch a rank has, got ",
        new_position,
        "; count the samples of this rank and this epoch only"));
  if (epoch != new_epoch)
    order.clear();
  epoch = new_epoch;
  position = new_position;
  // Whoever asks for samples before a reset() has begun, and gets the start from it.
  stays = true;
}

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options)
    : state_(std::make_shared<State>()) {
  check(options);
  state_->options = options;
}

void DistributedSampler::set_epoch(uint64_t epoch) {
  if (epoch != state_->epoch)
    state_->go_to(epoch, 0);
}

uint64_t DistributedSampler::epoch() const {
  return state_->epoch;
}

size_t DistributedSampler::position() const {
  return state_->position;
}

void DistributedSampler::seek(size_t position) {
  state_->go_to(state_->epoch, position);
}

size_t DistributedSampler::samples() const {
  return samples_of(state_->options);
}

const DistributedSamplerOptions& DistributedSampler::options() const {
  return state_->options;
}

void DistributedSampler::reset(std::optional<size_t> new_size) {
  State& state = *state_;
  if (new_size && *new_size != state.options.size) {
    DistributedSamplerOptions options = state.options;
    options.size = *new_size;
    check(options);
    state.options = options;
    state.order.clear();
    state.stays = false;  // a position in another dataset
  }
  if (!state.stays)
    state.position = 0;
  state.stays = false;
}

std::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  if (batch_size == 0)
    throw InvalidArgument(
        "[data] expected a batch of at least one sample, got a batch size of 0; give "
        "the loader one");
  State& state = *state_;
  const size_t count = std::min(batch_size, samples() - state.position);
  if (count == 0)
    return std::nullopt;
  state.stays = false;
  std::vector<size_t> batch(count);
  for (size_t& index : batch)
    index = state.sample(state.position++);
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const DistributedSamplerOptions& options = state_->options;
  write(archive, "size", options.size);
  write(archive, "seed", options.seed);
  write(archive, "shuffle", options.shuffle);
  write(archive, "tail", static_cast<uint64_t>(options.tail));
  write(archive, "ranks", options.ranks);
  write(archive, "epoch", state_->epoch);
  write(archive, "position", state_->position);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  const DistributedSamplerOptions& options = state_->options;
  check_same(archive, "size", options.size);
  check_same(archive, "seed", options.seed);
  check_same(archive, "shuffle", options.shuffle);
  check_same(archive, "tail", static_cast<uint64_t>(options.tail));
  DistributedSamplerOptions saved = options;
  saved.rank = 0;
  saved.ranks = read(archive, "ranks");
  check(saved);
  state_->go_to(
      read(archive, "epoch"),
      position_among(options, saved, read(archive, "position")));
}

}  // namespace trireme::data
