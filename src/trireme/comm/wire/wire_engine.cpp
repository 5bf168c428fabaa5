#include "trireme/comm/wire/wire_engine.h"

#include <ATen/Functions.h>

#include "trireme/comm/split_wish.h"
#include "trireme/comm/wire/algorithms.h"
#include "trireme/core/error.h"

namespace trireme::comm {

void WireEngine::run(const Collective& call, const Deadline& deadline) {
  if (size() == 1) {
    steps_.world().check();
    return take_own(call, 0);
  }
  auto record = steps_.world().recorder().begin(
      {.what = signature(call), .group = wire().id(), .sequence = ++calls_});
  steps_.begin(call, deadline);
  run_wire_collective(steps_, call);
  record.done();
}

std::shared_ptr<Engine> WireEngine::split(
    int color, int key, const Deadline& deadline) {
  return split_wire(color, key, deadline);
}

std::shared_ptr<WireEngine> WireEngine::split_wire(
    int color, int key, const Deadline& deadline) {
  const SplitWish wish = share_wishes(*this, color, key, deadline);
  Wire::Part part{.color = color, .key = key, .ranks = wish.ranks};
  part.seat = {.members = wish.members, .rank = wish.rank};
  if (color >= 0 && wish.rank == 0)
    part.seat.id = steps_.world().group_ids().next();
  const auto ids =
      share_rows(*this, CollectiveKind::Split, {int64_t{part.seat.id}}, deadline);
  if (color >= 0)
    part.seat.id = static_cast<uint32_t>(ids[static_cast<size_t>(wish.ranks[0])]);
  std::shared_ptr<Wire> wire_of_part = wire().split(part);
  return wire_of_part ? std::make_shared<WireEngine>(std::move(wire_of_part)) : nullptr;
}

std::unique_ptr<SendPort> WireEngine::open_send(
    int to, int tag, const ChannelOptions& options) {
  return wire().open_send(to, tag, options);
}

std::unique_ptr<ReceivePort> WireEngine::open_receive(int from, int tag) {
  return wire().open_receive(from, tag);
}

at::Tensor WireEngine::allocate(
    at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty(sizes, options);
}

void WireEngine::abort(const std::string& why) noexcept {
  steps_.world().stop({.origin = steps_.world().rank(), .why = why});
}

std::shared_ptr<Engine> WireEngine::renew(const Deadline& deadline) {
  check_renewable(wire().id(), renewed_);
  auto next = std::make_shared<WireEngine>(wire().renew(deadline));
  renewed_ = true;
  return next;
}

}  // namespace trireme::comm
