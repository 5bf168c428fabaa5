#include "trireme/autograd/random_stream.h"

#include <utility>

namespace trireme::autograd {
namespace {

thread_local std::optional<RandomContext> context_of_thread;

/// Spreads the bits of a number over all 64 (the finaliser of splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
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
  return mix(hash);
}

RandomStream::RandomStream(const RandomContext& context, uint64_t layer)
    : key_(mix(mix(mix(context.seed) ^ context.step) ^ layer)),
      group_(philox_groups().front()) {}

}  // namespace trireme::autograd
