// What a computation depends on beside its inputs, kept for doing it again.
#pragma once
#include <optional>

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>

#include "trireme/autograd/random_stream.h"

namespace trireme::autograd {

/// Lets autocast cast weights anew while it lives: a cast that it remembers belongs to
/// the graph that it was made in.
class WithoutCastCache {
 public:
  WithoutCastCache();
  ~WithoutCastCache();
  WithoutCastCache(const WithoutCastCache&) = delete;
  WithoutCastCache& operator=(const WithoutCastCache&) = delete;

 private:
  bool was_on_;
};

/// The settings of a thread: autocast and the like, the random context, and the state
/// of torch's CPU generator, if asked for.
class SavedSurroundings {
 public:
  /// Takes those of this thread.
  explicit SavedSurroundings(bool with_generator);

  /// Sets them on this thread, with grad mode on, while it lives.
  class Scope {
   public:
    explicit Scope(const SavedSurroundings& saved);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    at::ThreadLocalStateGuard state_;
    WithoutCastCache casts_;
    RandomScope random_;
    at::Tensor generator_;
  };

 private:
  at::ThreadLocalState state_;
  std::optional<RandomContext> random_;
  at::Tensor generator_;
};

}  // namespace trireme::autograd
