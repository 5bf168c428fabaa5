// DistributedSampler: which samples of a dataset are whose, epoch by epoch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/data/samplers/base.h>

namespace trireme::data {

/// What becomes of the samples that are left when a dataset is dealt out evenly. Every
/// rank gets as many as the others either way, since they step together.
enum class Tail {
  /// Some samples from the start of the order are given out twice.
  Pad,
  /// The samples at the end of the order are left out in this epoch.
  Drop,
};

struct DistributedSamplerOptions {
  /// How many samples the dataset has.
  size_t size = 0;
  /// Whose samples these are, of how many ranks.
  size_t rank = 0;
  size_t ranks = 1;
  /// A new order for every epoch; off: the order of the dataset.
  bool shuffle = true;
  /// The same on all ranks.
  uint64_t seed = 0;
  Tail tail = Tail::Pad;
};

/// Gives each rank its part of a dataset: samples rank, rank + ranks, … of an order
/// that all ranks know without talking, since it follows from the seed and the epoch.
///
///     DistributedSampler sampler(
///         {.size = count, .rank = rank, .ranks = ranks, .seed = 7});
///     auto loader = torch::data::make_data_loader(dataset, sampler, 32);
///     for (size_t epoch = sampler.epoch(); epoch < 10; ++epoch) {
///       sampler.set_epoch(epoch);
///       for (auto& batch : *loader) …
///     }
///
/// Copies are the same sampler, so the one that a loader has taken follows the one that
/// was given to it. Not for several threads at once; a loader asks from one only.
///
/// To go on in the middle of an epoch, write position() (or the archive of save()), and
/// seek() there (or load()) before the loader begins: its first reset() stays at that
/// sample. A loader with workers asks for batches before they are used; then count the
/// samples that were trained on, and seek() to that count.
///
/// Holds the order of the dataset while it draws one, and this rank's part of it
/// afterwards; without shuffle nothing at all.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  explicit DistributedSampler(const DistributedSamplerOptions& options);

  /// Goes to the start of another epoch; nothing changes if it is this one already.
  void set_epoch(uint64_t epoch);
  uint64_t epoch() const;
  /// How many samples of this epoch this rank was given so far.
  size_t position() const;
  /// Goes to a sample of this epoch; the next reset() stays there.
  void seek(size_t position);
  /// How many samples of an epoch are this rank's; the same on all ranks.
  size_t samples() const;
  const DistributedSamplerOptions& options() const;

  /// Back to the start of the epoch (but see seek()), with another size of the dataset
  /// if one is given.
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  /// The next samples, at most `batch_size`; none at the end of the epoch.
  std::optional<std::vector<size_t>> next(size_t batch_size) override;

  /// Writes epoch and position, and what they are about. All ranks write the same if
  /// all are at the same position, so one archive serves all.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Goes to where save() was called. Size, seed, shuffle and tail must be what they
  /// were, or the order would be another. The number of ranks may differ, if the
  /// samples that all ranks were given together can be dealt out evenly.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::data
