// Ranks with different numbers of inputs.
#pragma once
#include <functional>
#include <vector>

namespace trireme::dp {

/// What happens when ranks run out of inputs at different times.
struct JoinOptions {
  /// Divide means by the ranks that still have inputs. Otherwise by all, so that every
  /// sample weighs the same, early or late.
  bool divide_by_active = false;
  /// Error on every rank as soon as one is out of inputs: for models that talk in other
  /// ways too, as SyncBatchNorm does.
  bool throw_on_early_end = false;
  /// Off: as if there were no join.
  bool enable = true;
};

/// Something with collective steps that a rank without inputs can go through with
/// nothing to add.
class Joinable {
 public:
  Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;
  virtual ~Joinable() = default;

  virtual void begin_join(const JoinOptions& options) = 0;
  /// This rank is out of inputs: its part of one step of the others. False, and nothing
  /// else was done, if no rank has inputs.
  virtual bool shadow_step() = 0;
  /// No rank has inputs any more: makes what they have equal.
  virtual void all_joined() = 0;
  virtual void end_join() = 0;
};

/// Runs `steps` on every rank, as many as its inputs allow, and lets ranks that are
/// through take part in the steps of the others. What is asked of the others rides on
/// their buckets: a step has no collective more than without.
///
///     dp::join({&model.replica()}, [&] {
///       for (const auto& batch : loader) train(batch);
///     });
///
/// Several joinables are listed in the order in which a step uses them. When `steps`
/// throws, the error passes at once; the others hear of it as of any failure.
void join(
    const std::vector<Joinable*>& joinables,
    const std::function<void()>& steps,
    const JoinOptions& options = {});

}  // namespace trireme::dp
