#include "trireme/comm/shared/shared_engine.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>

#include "trireme/comm/shared/algorithms.h"
#include "trireme/comm/shared/block_ports.h"
#include "trireme/comm/shared/reference_ports.h"
#include "trireme/comm/split_wish.h"
#include "trireme/core/error.h"

namespace trireme::comm {

uint64_t make_world(SharedMemory& memory, int size) {
  const uint64_t offset = memory.allocate(WorldControl::bytes(size));
  WorldControl* control = make_world_control(memory.at(offset), size);
  control->root_group.store(
      make_group_control(memory, size), std::memory_order_release);
  return offset;
}

SharedEngine::SharedEngine(
    std::shared_ptr<World> world,
    std::shared_ptr<ChannelDirectory> directory,
    Seat seat,
    const Deadline& deadline)
    : world_(world),
      directory_(std::move(directory)),
      id_(seat.id),
      steps_(
          std::move(world), seat.control, std::move(seat.members), seat.rank, deadline),
      names_(world_->names_of(steps_.members())) {}

std::shared_ptr<SharedEngine> SharedEngine::root(
    WorldSetup setup,
    const Deadline& deadline,
    const std::function<void(const std::shared_ptr<World>&)>& made) {
  auto world = std::make_shared<World>(std::move(setup));
  if (made)
    made(world);
  Seat seat{
      .control = world->control().root_group.load(std::memory_order_acquire),
      .members = std::vector<int>(static_cast<size_t>(world->size())),
      .rank = world->rank()};
  std::iota(seat.members.begin(), seat.members.end(), 0);
  auto directory = std::make_shared<ChannelDirectory>(*world);
  std::shared_ptr<SharedEngine> engine(
      new SharedEngine(world, std::move(directory), std::move(seat), deadline));
  world->choose_policy();
  return engine;
}

void SharedEngine::run(const Collective& call, const Deadline& deadline) {
  if (size() == 1) {
    world_->check();
    return call.fold != nullptr ? fold_alone(call) : take_own(call, 0);
  }
  auto record = world_->recorder().begin(
      {.what = signature(call), .group = id_, .sequence = ++calls_});
  steps_.begin(call, deadline);
  switch (call.kind) {
    case CollectiveKind::Barrier:
      steps_.enter();
      break;
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
    case CollectiveKind::ReduceScatter:
      call.fold != nullptr ? run_fold(steps_, call) : run_reduction(steps_, call);
      break;
    default:
      run_move(steps_, call);
  }
  record.done();
}

std::shared_ptr<Engine> SharedEngine::split(
    int color, int key, const Deadline& deadline) {
  world_->memory().reclaim();
  const SplitWish wish = share_wishes(*this, color, key, deadline);
  Seat seat{.rank = wish.rank};
  for (const int peer : wish.ranks)
    seat.members.push_back(steps_.members()[static_cast<size_t>(peer)]);
  std::exception_ptr no_memory;
  if (color >= 0 && seat.rank == 0)
    try {
      seat.control =
          make_group_control(world_->memory(), static_cast<int>(wish.ranks.size()));
      seat.id = world_->group_ids().next();
    } catch (...) {
      no_memory = std::current_exception();  // the others are on their way: tell them
    }
  const auto offers = share_rows(
      *this,
      CollectiveKind::Split,
      {static_cast<int64_t>(seat.control), seat.id},
      deadline);
  if (color < 0)
    return nullptr;
  if (no_memory)
    std::rethrow_exception(no_memory);
  const auto leader = 2 * static_cast<size_t>(wish.ranks[0]);
  seat.control = static_cast<uint64_t>(offers[leader]);
  seat.id = static_cast<uint32_t>(offers[leader + 1]);
  if (seat.control == 0)
    throw InvalidArgument(text(
        "[comm] expected shared memory for the group that split() makes of ",
        rank_list(wish.members),
        ", but there is none on rank ",
        wish.members[0],
        "; see what it says of it"));
  return std::shared_ptr<SharedEngine>(
      new SharedEngine(world_, directory_, std::move(seat), deadline));
}

ChannelEnd SharedEngine::channel_end(int from, int to, int peer, int tag) const {
  return {
      .world = world_,
      .directory = directory_,
      .key = {.group = id_, .from = from, .to = to, .tag = tag},
      .peer = steps_.members()[static_cast<size_t>(peer)]};
}

std::unique_ptr<SendPort> SharedEngine::open_send(
    int to, int tag, const ChannelOptions& options) {
  ChannelEnd end = channel_end(rank(), to, to, tag);
  // Where all memory is shared, a message needs no copy.
  if (world_->memory().contains(this, sizeof *this))
    return std::make_unique<ReferenceSender>(std::move(end), options);
  return std::make_unique<BlockSender>(std::move(end), options);
}

std::unique_ptr<ReceivePort> SharedEngine::open_receive(int from, int tag) {
  ChannelEnd end = channel_end(from, rank(), from, tag);
  if (world_->memory().contains(this, sizeof *this))
    return std::make_unique<ReferenceReceiver>(std::move(end));
  return std::make_unique<BlockReceiver>(std::move(end));
}

at::Tensor SharedEngine::allocate(
    at::IntArrayRef sizes, const at::TensorOptions& options) {
  // Empty dims count as one: what overflows without them is refused too, as torch does.
  size_t bytes = options.dtype().itemsize();
  bool empty = false;
  for (const int64_t extent : sizes) {
    empty = empty || extent == 0;
    if (extent < 0 ||
        __builtin_mul_overflow(bytes, std::max<uint64_t>(1, extent), &bytes))
      throw InvalidArgument(text(
          "[comm] expected sizes that fit into memory, got ", sizes, "; correct them"));
  }
  auto memory = world_->setup().memory;
  const uint64_t offset = memory->allocate(empty ? 0 : bytes);
  // In a world that was stopped, a peer may still be writing here: it has not looked up
  // yet. Only when all have come to the next generation is the memory nobody's.
  const auto free = [memory, offset, control = &world_->control()](void*) {
    memory->retire([memory = memory.get(), offset, control] {
      if (control->stopped_by.load(std::memory_order_acquire) != 0 &&
          !control->renewed())
        return false;
      memory->release(offset);
      return true;
    });
  };
  try {
    return at::from_blob(memory->at(offset), sizes, free, options);
  } catch (...) {
    memory->release(offset);
    throw;
  }
}

void SharedEngine::abort(const std::string& why) noexcept {
  world_->stop({.origin = world_->name_of(world_->rank()), .why = why});
}

std::shared_ptr<Engine> SharedEngine::renew(const Deadline& deadline) {
  check_renewable(id_, renewed_);
  WorldSetup setup = world_->setup();
  setup.control = world_->renew(
      deadline, [this] { return make_world(world_->memory(), world_->size()); });
  auto next = root(std::move(setup), deadline);
  renewed_ = true;
  return next;
}

}  // namespace trireme::comm
