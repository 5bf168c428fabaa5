#include "trireme/autograd/saved_surroundings.h"

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

namespace trireme::autograd {
namespace {

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

WithoutCastCache::WithoutCastCache()
    : was_on_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}

WithoutCastCache::~WithoutCastCache() {
  at::autocast::set_autocast_cache_enabled(was_on_);
}

SavedSurroundings::SavedSurroundings(bool with_generator) : random_(current_random()) {
  state_.set_grad_mode(true);
  if (with_generator)
    generator_ = generator_state();
}

SavedSurroundings::Scope::Scope(const SavedSurroundings& saved)
    : state_(saved.state_), random_(saved.random_) {
  if (saved.generator_.defined()) {
    generator_ = generator_state();
    set_generator_state(saved.generator_);
  }
}

SavedSurroundings::Scope::~Scope() {
  if (generator_.defined())
    set_generator_state(generator_);
}

}  // namespace trireme::autograd
