#include "trireme/autograd/random_stream.h"

#include <utility>

#include "trireme/core/mix.h"

namespace trireme::autograd {
namespace {

thread_local std::optional<RandomContext> context_of_thread;

uint64_t scatter(uint64_t x) {
  return mix(x + kMixStep);
}

}  // namespace

RandomScope::RandomScope(const std::optional<RandomContext>& context)
    : outer_(std::exchange(context_of_thread, context)) {}

RandomScope::~RandomScope() {
  context_of_thread = outer_;
}

const std::optional<RandomContext>& current_random() {
  return context_of_thread;
}

uint64_t layer_key(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return scatter(hash);
}

RandomStream::RandomStream(const RandomContext& context, uint64_t layer)
    : key_(scatter(scatter(scatter(context.seed) ^ context.step) ^ layer)),
      group_(philox_groups().front()) {}

}  // namespace trireme::autograd
