// TokenLoader: the batches of a run, made ahead by a thread.
#pragma once
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "trireme/data/token_file.h"

namespace trireme::data {

struct TokenLoaderOptions {
  /// T: how many tokens a sample has.
  int64_t sequence_length = 0;
  /// B: the samples of a step over all data parallel ranks.
  int64_t global_batch = 0;
  /// Whose samples these are, of how many data parallel ranks; B is a multiple of
  /// `ranks`.
  int rank = 0;
  int ranks = 1;
  /// A new order of the windows for every epoch; off: one window after the other.
  bool shuffle = true;
  /// The same on all ranks.
  uint64_t seed = 0;
  /// A token that is not below it is an error; 0: not checked.
  int64_t vocab_size = 0;
  /// How many batches are made ahead; 0: without a thread, inside next().
  int prefetch = 2;
};

struct TokenBatch {
  /// int64, [B / ranks, T].
  at::Tensor inputs;
  /// The same, one token later.
  at::Tensor targets;
  /// The number of the first of these samples within the global batch.
  int64_t first_sample = 0;
  int64_t step = 0;
};

/// Gives a rank its part of every global batch, without end: epoch follows epoch.
///
///     TokenLoader loader(open_tokens("train.bin"),
///         {.sequence_length = 1024, .global_batch = 64, .rank = dp_rank, .ranks = 4});
///     loader.seek(saved_step);
///     TokenBatch batch = loader.next();
///
/// Sample j of step s is sample k = s * B + j of the run: the windows of the file
/// (count_windows()) in the order of epoch k / windows, at place k % windows. Rank r of
/// R takes samples r * B / R up to (r + 1) * B / R of each step. So a global batch
/// follows from file, T, B and seed, whatever the layout of the ranks.
///
/// Not for several threads at once. The thread inside makes at most `prefetch` batches
/// more than were taken, and ends with this object, which never waits for longer than a
/// batch takes.
class TokenLoader {
 public:
  /// InvalidArgument if the options do not fit each other, or the file has not even one
  /// window.
  TokenLoader(TokenFile file, const TokenLoaderOptions& options);
  ~TokenLoader();
  TokenLoader(TokenLoader&&) noexcept;
  TokenLoader& operator=(TokenLoader&&) noexcept;

  /// The batch of step position(). What went wrong while it was made is thrown here,
  /// and again by the next call; seek() goes on elsewhere.
  TokenBatch next();
  /// The step that next() will give: all that has to be saved.
  int64_t position() const;
  /// Goes to a step, at least 0; exact and at once, however far.
  void seek(int64_t step);

  /// How many samples of `sequence_length` tokens an epoch has.
  int64_t windows() const;
  const TokenLoaderOptions& options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::data
