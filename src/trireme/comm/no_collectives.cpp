#include "trireme/comm/no_collectives.h"

#include <utility>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

thread_local const NoCollectives* innermost_refusal = nullptr;

}  // namespace

NoCollectives::NoCollectives(std::string refusal)
    : refusal_(std::move(refusal)), outer_(std::exchange(innermost_refusal, this)) {}

NoCollectives::~NoCollectives() {
  innermost_refusal = outer_;
}

void NoCollectives::check() {
  if (innermost_refusal != nullptr)
    throw InvalidArgument(innermost_refusal->refusal_);
}

}  // namespace trireme::comm
