// Runs the layers of a stage over a growing text, and each token once.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/model/layer_cache.h"
#include "trireme/pipe/layers.h"

namespace trireme::model {

/// The layers of one stage, and what they remember. Positions come in any portions: the
/// prompt at once, then token by token. Puts the layers into evaluation mode while it
/// lives, and then back.
///
///     Decoder decoder(build_layers(plan, {}));
///     at::Tensor logits = decoder.step(prompt);        // [n, t] -> [n, t, vocab]
///     logits = decoder.step(next_token);               // [n, 1] -> [n, 1, vocab]
///
/// Not for several threads at once.
class Decoder {
 public:
  explicit Decoder(pipe::LayerList layers);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Whether every layer is a CachedLayer. If one is not, the decoder keeps all inputs
  /// of the stage and runs it over the whole text for every step: right, but its time
  /// grows with the square of the text.
  bool supports_cache() const { return supports_cache_; }

  /// The outputs for new positions: tokens [n, t] of the first stage, hidden states
  /// [n, t, width] of others. InvalidArgument if they are of another batch than before.
  /// A step that throws changes nothing.
  at::Tensor step(const at::Tensor& ids_or_hidden);
  /// How many positions it has seen.
  int64_t length() const { return length_; }
  /// Forgets the text; memory stays for the next one.
  void reset();

 private:
  at::Tensor decode(at::Tensor x);

  pipe::LayerList layers_;
  std::function<void()> restore_;
  bool supports_cache_ = false;
  /// By layer; null where there is no such interface.
  std::vector<CachedLayer*> cached_;
  std::vector<LayerCache> caches_;
  /// All inputs, without caches.
  at::Tensor seen_;
  int64_t batch_ = 0;
  int64_t length_ = 0;
};

}  // namespace trireme::model
