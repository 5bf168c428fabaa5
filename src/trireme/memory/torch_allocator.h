// What libtorch sees: its interface, on the pool and the accounts of this process.
#pragma once
#include <c10/core/Allocator.h>

namespace trireme::memory {

/// The allocator that install_caching_allocator() installs. Never destroyed, because
/// libtorch keeps the pointer.
c10::Allocator& torch_allocator();

}  // namespace trireme::memory
