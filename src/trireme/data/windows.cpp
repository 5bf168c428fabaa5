#include "trireme/data/windows.h"

#include "trireme/core/error.h"

namespace trireme::data {

int64_t count_windows(int64_t tokens, int64_t length) {
  if (length < 1)
    throw InvalidArgument(text(
        "[data] expected windows of at least 1 token, got a length of ",
        length,
        "; say the sequence length of the model"));
  return tokens < 1 ? 0 : (tokens - 1) / length;
}

SampleOrder::SampleOrder(const SampleOrderOptions& options) : options_(options) {
  if (options.windows < 1)
    throw InvalidArgument(text(
        "[data] expected at least one window to order, got ",
        options.windows,
        "; give a number above 0"));
}

int64_t SampleOrder::window(int64_t sample) {
  const int64_t place = sample % options_.windows;
  if (!options_.shuffle)
    return place;
  const int64_t epoch = sample / options_.windows;
  if (!order_ || epoch != epoch_) {
    order_.emplace(options_.windows, options_.seed, static_cast<uint64_t>(epoch));
    epoch_ = epoch;
  }
  return (*order_)(place);
}

}  // namespace trireme::data
